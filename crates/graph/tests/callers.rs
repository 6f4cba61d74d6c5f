//! What many callers of one session cost.

use std::sync::{Arc, Barrier};

use millstream_core::{DType, Device};
use millstream_cpu as _;
use millstream_graph::{Batching, Body, Session};
use millstream_nn::{Tensor, TransformerEncoder, TransformerOptions, Weights};

const SIZE: usize = 64;
const TOKENS: usize = 96;

/// Three layers on a device of its own.
fn session(device: &Device) -> Session {
    let options =
        TransformerOptions { batch_first: true, dim_feedforward: 4 * SIZE, ..Default::default() };
    let weights = Weights::random(1, DType::F32, device);
    let layers = TransformerEncoder::new(SIZE, 4, 3, false, options, &weights).unwrap();
    let model = Body::of_module(Arc::new(layers), DType::F32);
    Session::builder(device).batching(Batching::off()).build(model).unwrap()
}

fn input(caller: usize, device: &Device) -> Tensor {
    let value = |index: usize| ((index * 31 + caller * 17) % 101) as f32 / 101.0 - 0.5;
    let values: Vec<f32> = (0..TOKENS * SIZE).map(value).collect();
    Tensor::from_slice(&values, &[1, TOKENS, SIZE], device).unwrap()
}

/// Calls from so many threads at once, each with its own input, ten times: the highest that the memory of the device
/// was, with the scratch memory of kernels, and the bytes of an arena.
fn peak_of(callers: usize, answers: &[Vec<f32>]) -> (usize, usize) {
    let device = Device::builder("cpu").open().unwrap();
    let session = session(&device);
    let together = Barrier::new(callers);
    std::thread::scope(|scope| {
        for (caller, answer) in answers.iter().enumerate().take(callers) {
            let (session, together, device) = (&session, &together, &device);
            scope.spawn(move || {
                let input = input(caller, device);
                for _ in 0..10 {
                    together.wait();
                    let outputs = session.run([&input]).unwrap();
                    let found = outputs.tensor("output").unwrap().to_vec::<f32>().unwrap();
                    assert!(&found == answer, "caller {caller} has another answer than alone");
                }
            });
        }
    });
    let (memory, arena) = (device.memory(), session.stats().largest_arena);
    let result = (memory.peak + memory.scratch, arena);
    drop(session);
    device.close().unwrap();
    result
}

/// Memory with 31 callers is at most that with 2 and 29 arenas more.
#[test]
fn each_further_caller_costs_at_most_an_arena() {
    let device = Device::builder("cpu").threads(1).open().unwrap();
    let alone = session(&device);
    let answer = |caller| {
        let outputs = alone.run([&input(caller, &device)]).unwrap();
        outputs.tensor("output").unwrap().to_vec::<f32>().unwrap()
    };
    let answers: Vec<Vec<f32>> = (0..31).map(answer).collect();
    let (two, arena) = peak_of(2, &answers);
    let (many, _) = peak_of(31, &answers);
    assert!(arena > 64 << 10, "the model is no model: {arena}");
    assert!(many <= two + 29 * arena, "{many} bytes with 31 callers, {two} with 2, arena {arena}");
}
