//! Batches and plans that are replayed as graphs.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use millstream_core::{Device, Error, Operand, Plan};

use crate::layer::{Layer, ROWS, SIZE};
use crate::linux::{Test, graph_launches, matrix, open, row};

pub const TESTS: &[Test] = &[
    ("replayed_batches_give_new_answers", replayed_batches_give_new_answers),
    ("one_batch_may_be_in_flight_many_times", one_batch_may_be_in_flight_many_times),
    ("threads_that_share_a_stream_are_replayed", threads_that_share_a_stream_are_replayed),
    ("plans_are_replayed_by_their_numbers", plans_are_replayed_by_their_numbers),
];

fn replayed_batches_give_new_answers() {
    let device = open();
    let stream = device.stream().unwrap();
    let layers = [Layer::new(&stream).unwrap(), Layer::new(&stream).unwrap()];
    for call in 0..100 {
        for layer in &layers {
            let input = Layer::input(call);
            assert_eq!(layer.call(&stream, &input).unwrap(), Layer::expected(&input), "{call}");
        }
    }
    // Two plans, each launched directly once.
    assert_eq!(graph_launches(), 2 * 99);
}

fn one_batch_may_be_in_flight_many_times() {
    let stream = open().stream().unwrap();
    let buffers = [(); 2].map(|()| stream.allocate(row(100).dense_bytes()).unwrap());
    let mut downloads = Vec::new();
    for call in 0..300 {
        for (index, buffer) in buffers.iter().enumerate() {
            let value = (call * 2 + index) as f32;
            stream.upload(buffer.operand(row(100)), &[value; 100]).unwrap();
        }
        for buffer in &buffers {
            downloads.push(stream.download(buffer.operand(row(100))).unwrap());
        }
        stream.flush().unwrap();
    }
    for (index, download) in downloads.into_iter().enumerate() {
        let values = download.read::<f32>().unwrap();
        assert!(values.iter().all(|&value| value == index as f32), "{index}: {}", values[0]);
    }
    assert!(graph_launches() > 0);
}

/// Several threads per stream, each allocating what a call needs: their batches do not mix, and each
/// thread gets the same blocks again, so that nearly every batch is one that came before.
///
/// Of a hundred calls 99 are replayed where the machine has nothing else to do, about 40 where its cores
/// are busy with something else, and 2 to 17 if batches were mixed. There are rounds until 30 were in one.
fn threads_that_share_a_stream_are_replayed() {
    const THREADS: usize = 12;
    const CALLS: usize = 100;
    const ROUNDS: usize = 40;
    let device = Device::builder("cuda").streams(3).open().unwrap();
    let layer = Layer::new(&device.stream().unwrap()).unwrap();
    let (barrier, enough) = (Barrier::new(THREADS), AtomicBool::new(false));
    // No thread stops while others wait for it.
    let wrong = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (barrier, layer, enough, wrong) = (&barrier, &layer, &enough, &wrong);
            scope.spawn(move || {
                let stream = device.stream();
                for _ in 0..ROUNDS {
                    barrier.wait();
                    let before = device.counters().replays;
                    // Nobody calls before all have looked.
                    barrier.wait();
                    for call in 0..CALLS {
                        let input = Layer::input(thread * 1000 + call);
                        let got = stream
                            .as_ref()
                            .ok()
                            .map(|stream| layer.call_twice(stream, &input, thread + call).ok());
                        let expected = Layer::expected(&Layer::expected(&input));
                        if got.flatten() != Some(expected) {
                            wrong.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    barrier.wait();
                    if device.counters().replays - before > (THREADS * CALLS * 3 / 10) as u64 {
                        enough.store(true, Ordering::Relaxed);
                    }
                    barrier.wait();
                    if enough.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
    });
    let counters = device.counters();
    assert_eq!(wrong.load(Ordering::Relaxed), 0, "answers");
    assert!(counters.shares >= THREADS as u64 - 2);
    assert!(enough.load(Ordering::Relaxed), "in none of {ROUNDS} rounds: {counters:?}");
}

/// Two plans with the same buffers in turn: a graph is of one plan, and of one set of buffers.
fn plans_are_replayed_by_their_numbers() {
    const CALLS: u64 = 60;
    let device = open();
    let stream = device.stream().unwrap();
    let layer = Layer::new(&stream).unwrap();
    let one = matrix(ROWS, SIZE);
    let layers = |count: usize| {
        Plan::trace(&device, &[one], |inputs| {
            let mut value = inputs[0].clone();
            for _ in 0..count {
                let next = stream.allocate(one.dense_bytes())?;
                layer.record(&stream, &next, &value)?;
                value = next;
            }
            Ok::<_, Error>(vec![Operand::new(value, one)])
        })
    };
    let plans = [layers(2).unwrap(), layers(3).unwrap()];
    let other = stream.allocate(one.dense_bytes()).unwrap();
    let before = device.counters().replays;
    for call in 0..CALLS as usize {
        let input = Layer::input(call);
        stream.upload(layer.x.operand(one), &input).unwrap();
        stream.flush().unwrap();
        let output = if call % 4 < 2 { &layer.y } else { &other };
        stream.run(&plans[call % 2], &[&layer.x], &[output]).unwrap();
        // A batch of its own: a download in it would tell it from one with another output.
        stream.flush().unwrap();
        let got = stream.download(output.operand(one)).unwrap().read::<f32>().unwrap();
        let twice = Layer::expected(&Layer::expected(&input));
        let expected = if call % 2 == 0 { twice } else { Layer::expected(&twice) };
        assert_eq!(got, expected, "call {call}");
    }
    let replays = device.counters().replays - before;
    assert!(replays >= CALLS - 4 * 3, "{replays} of {CALLS} runs were replayed");
}
