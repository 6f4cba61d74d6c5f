use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use millstream_core::{DType, Device};
use millstream_nn::{Linear, Weights};

use super::*;

fn device() -> Device {
    Device::cpu().unwrap()
}

fn layer() -> Linear {
    Linear::new(6, 3, true, &Weights::random(5, DType::F32, &device())).unwrap()
}

fn row(seed: usize) -> Tensor {
    let values: Vec<f32> = (0..6).map(|at| ((at * 5 + seed * 7) % 11) as f32 * 0.4 - 2.0).collect();
    Tensor::from_slice(&values, &[1, 6], &device()).unwrap()
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    tensor.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

/// Polls until there is something. A worker of the device computes meanwhile.
fn polled<T>(mut poll: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "the call does not end");
        std::thread::yield_now();
    }
}

/// Subtracts the mean of all rows, which are those of all calls in a batch.
struct Centered;

impl Module for Centered {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        input.sub(&input.mean([0], true)?)
    }
}

#[test]
fn calls_of_several_threads_are_one_batch_with_the_bits_of_calls_alone() {
    // The first call waits for the others.
    let batching = Batching::new().always().in_flight(1).most(4);
    let layer = Batched::with(layer(), batching.max_delay(Duration::from_secs(60)));
    assert!(layer.session().is_none());
    let joinable = layer.joinable(&row(0)).unwrap();
    assert_eq!(joinable, Joinable::Yes { axes: vec![("input".into(), Some(0))] });
    std::thread::scope(|scope| {
        let call = |seed: usize| {
            let layer = &layer;
            scope.spawn(move || bits(&layer.run(&row(seed)).unwrap()))
        };
        let calls: Vec<_> = (0..4).map(call).collect();
        for (seed, call) in calls.into_iter().enumerate() {
            let alone = layer.module().forward(&row(seed)).unwrap();
            assert_eq!(call.join().unwrap(), bits(&alone));
        }
    });
    let stats = layer.session().unwrap().batching_stats();
    assert_eq!((stats.sizes[3], stats.repeated), (1, 0), "{stats}");
}

#[test]
fn all_ways_to_call_give_what_the_module_gives() {
    for batching in [Batching::new(), Batching::new().always(), Batching::off()] {
        let layer = Batched::with(layer(), batching);
        let expected = bits(&layer.module().forward(&row(3)).unwrap());
        assert_eq!(bits(&layer.run(&row(3)).unwrap()), expected);
        let input = row(3);
        let mut future = pin!(layer.run_async(&input));
        let answer =
            polled(|| match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(answer) => Some(answer.unwrap()),
                Poll::Pending => None,
            });
        assert_eq!(bits(&answer), expected);
        let mut submitted = layer.submit(&input, &Call::new()).unwrap();
        let outputs = polled(|| submitted.poll()).unwrap();
        assert_eq!(bits(outputs.tensor("output").unwrap()), expected);
    }
}

#[test]
fn futures_may_go_to_other_threads() {
    fn is_send(_: &impl Send) {}
    let (layer, input) = (Batched::new(layer()), row(1));
    is_send(&layer);
    is_send(&layer.run_async(&input));
}

#[test]
fn a_module_that_combines_rows_runs_call_by_call() {
    let centered = Batched::with(Centered, Batching::new().always());
    centered.warm_up(&row(0)).unwrap();
    let joinable = centered.joinable(&row(0)).unwrap();
    assert!(matches!(joinable, Joinable::No { .. }), "{joinable}");
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let centered = &centered;
            scope.spawn(move || {
                assert_eq!(bits(&centered.run(&row(seed)).unwrap()), [0; 6]);
            });
        }
    });
}

#[test]
fn an_input_of_another_type_than_the_first_is_an_error_in_words() {
    let layer = Batched::new(layer());
    layer.run(&row(0)).unwrap();
    let other = Tensor::zeros(&[1, 6], DType::F16, &device()).unwrap();
    let error = layer.run(&other).unwrap_err().to_string();
    assert!(error.contains("the model takes f32"), "{error}");
}
