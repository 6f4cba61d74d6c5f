//! Batches that come again.

use millstream_core::{Error, Operand, Plan};
use millstream_gpu::fake::FakeOptions;

use crate::kit::{Gpu, Layer, ROWS, SIZE, harmless, matrix, row};

#[test]
fn replayed_batches_give_new_answers() {
    let gpu = Gpu::with_seed(1);
    let stream = gpu.stream();
    let layers = [Layer::new(&stream), Layer::new(&stream)];
    for call in 0..100 {
        for layer in &layers {
            let input = Layer::input(call);
            assert_eq!(layer.call(&stream, &input).unwrap(), Layer::expected(&input), "{call}");
        }
    }
    // Two batches, each launched item by item once.
    assert_eq!(gpu.replays(), 2 * 99);
}

#[test]
fn without_replay_answers_are_the_same() {
    let options = FakeOptions { replay: false, ..FakeOptions::default() };
    let gpu = Gpu::with(Default::default(), options);
    let stream = gpu.stream();
    let layer = Layer::new(&stream);
    for call in 0..20 {
        let input = Layer::input(call);
        assert_eq!(layer.call(&stream, &input).unwrap(), Layer::expected(&input), "{call}");
    }
    assert_eq!(gpu.replays(), 0);
}

#[test]
fn a_batch_with_other_memory_is_another_batch() {
    let gpu = Gpu::new();
    let stream = gpu.stream();
    let layer = Layer::new(&stream);
    let one = matrix(ROWS, SIZE);
    // As many as there are calls, so that no call has the memory of another.
    let held: Vec<_> = (0..30).map(|_| stream.allocate(one.dense_bytes()).unwrap()).collect();
    for (call, to) in held.iter().enumerate() {
        let input = Layer::input(call);
        stream.upload(layer.x.operand(one), &input).unwrap();
        layer.record(&stream, to, &layer.x).unwrap();
        stream.synchronize().unwrap();
        let got = stream.download(to.operand(one)).unwrap().read::<f32>().unwrap();
        assert_eq!(got, Layer::expected(&input), "{call}");
    }
    assert_eq!(gpu.replays(), 0);
}

/// A segment that is freed takes its address with it: what was captured with it is never replayed for another.
#[test]
fn what_was_captured_is_not_replayed_for_memory_that_came_later() {
    let gpu = Gpu::new();
    let stream = gpu.stream();
    let layer = Layer::new(&stream);
    let one = matrix(ROWS, SIZE);
    for round in 0..4 {
        // A segment of its own.
        let large = stream.allocate(8 << 20).unwrap();
        for call in 0..5 {
            let input = Layer::input(round * 10 + call);
            stream.upload(layer.x.operand(one), &input).unwrap();
            layer.record(&stream, &large, &layer.x).unwrap();
            let got = stream.download(large.operand(one)).unwrap().read::<f32>().unwrap();
            assert_eq!(got, Layer::expected(&input), "{round} {call}");
        }
        drop(large);
        gpu.device.empty_cache().unwrap();
    }
    // Each round launches once and then replays.
    assert_eq!(gpu.replays(), 4 * 4);
}

#[test]
fn plans_are_replayed_by_their_numbers() {
    const CALLS: usize = 60;
    let gpu = Gpu::with_seed(2);
    let stream = gpu.stream();
    let layer = Layer::new(&stream);
    let one = matrix(ROWS, SIZE);
    let layers = |count: usize| {
        Plan::trace(&gpu.device, &[one], |inputs| {
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
    let before = gpu.replays();
    for call in 0..CALLS {
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
    let replays = gpu.replays() - before;
    assert!(replays >= CALLS as u64 - 4 * 3, "{replays} of {CALLS} runs were replayed");
}

#[test]
fn one_batch_may_be_in_flight_many_times() {
    let gpu = Gpu::with_seed(5);
    let stream = gpu.stream();
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
    assert!(gpu.replays() > 0);
}

#[test]
fn what_cannot_be_captured_or_replayed_is_launched_item_by_item() {
    for call_that_fails in ["capture", "replay"] {
        let gpu = Gpu::new();
        let stream = gpu.stream();
        let layer = Layer::new(&stream);
        gpu.fail(call_that_fails, 0, 5, harmless());
        for call in 0..20 {
            let input = Layer::input(call);
            let got = layer.call(&stream, &input).unwrap();
            assert_eq!(got, Layer::expected(&input), "{call_that_fails} {call}");
        }
        // A batch that could not be captured is not tried again; one that could not be replayed is.
        let replays = if call_that_fails == "capture" { 0 } else { 14 };
        assert_eq!(gpu.replays(), replays, "{call_that_fails}");
    }
}
