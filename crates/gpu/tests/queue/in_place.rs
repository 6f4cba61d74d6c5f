//! Memory that host and device share: new values are written where they will be read, and results are read where they were written.

use std::time::Duration;

use millstream_core::{Buffer, Config, Error, Stream, as_bytes};
use millstream_gpu::fake::FakeOptions;

use crate::kit::{Gpu, Layer, ROWS, SIZE, matrix};

fn unified(seed: u64) -> Gpu {
    Gpu::with(Config::default(), FakeOptions { seed, unified: true, ..FakeOptions::default() })
}

/// A call as tensors make it: a new input, a new output, and its values.
fn call(layer: &Layer, stream: &Stream, input: &[f32]) -> Vec<f32> {
    let one = matrix(ROWS, SIZE);
    let from = stream.allocate_with(&one, as_bytes(input)).unwrap();
    let to = stream.allocate(one.dense_bytes()).unwrap();
    layer.record(stream, &to, &from).unwrap();
    stream.download(to.operand(one)).unwrap().read().unwrap()
}

#[test]
fn the_inputs_of_a_call_are_not_uploaded() {
    let gpu = unified(3);
    let stream = gpu.stream();
    let layer = Layer::new(&stream);
    stream.synchronize().unwrap();
    let before = stream.counters().commands;
    for seed in 0..20 {
        let input = Layer::input(seed);
        assert_eq!(call(&layer, &stream, &input), Layer::expected(&input), "{seed}");
    }
    assert_eq!(stream.counters().commands - before, 40, "a product and a download each");
}

#[test]
fn memory_that_the_device_still_uses_is_written_in_order() {
    let gpu = unified(0);
    let stream = gpu.stream();
    let layer = Layer::new(&stream);
    let one = matrix(ROWS, SIZE);
    stream.synchronize().unwrap();
    gpu.hold();
    let outputs: Vec<(usize, Buffer)> = (0..6)
        .map(|seed| {
            // Its memory is that of the call before, which has not begun.
            let from = stream.allocate_with(&one, as_bytes(&Layer::input(seed))).unwrap();
            let to = stream.allocate(one.dense_bytes()).unwrap();
            layer.record(&stream, &to, &from).unwrap();
            stream.flush().unwrap();
            (seed, to)
        })
        .collect();
    gpu.release();
    for (seed, output) in outputs {
        let found = stream.download(output.operand(one)).unwrap().read::<f32>().unwrap();
        assert_eq!(found, Layer::expected(&Layer::input(seed)), "{seed}");
    }
}

#[test]
fn threads_and_streams_that_share_values_get_the_right_ones() {
    for seed in 1..=10 {
        let gpu = unified(seed);
        let streams = [(); 4].map(|()| gpu.stream());
        let layer = Layer::new(&streams[0]);
        std::thread::scope(|scope| {
            for (number, stream) in streams.iter().enumerate() {
                let (layer, next, one) = (&layer, &streams[(number + 1) % 4], matrix(ROWS, SIZE));
                scope.spawn(move || {
                    for round in 0..10 {
                        let input = Layer::input(number * 100 + round);
                        let from = stream.allocate_with(&one, as_bytes(&input)).unwrap();
                        let to = stream.allocate(one.dense_bytes()).unwrap();
                        // Computed on another stream than the one that reads it.
                        layer.record(next, &to, &from).unwrap();
                        drop(from);
                        let found = stream.download(to.operand(one)).unwrap();
                        assert_eq!(found.read::<f32>().unwrap(), Layer::expected(&input));
                    }
                });
            }
        });
    }
}

/// As [`call`], with its values read in place.
fn call_and_read(layer: &Layer, stream: &Stream, input: &[f32]) -> Vec<f32> {
    let one = matrix(ROWS, SIZE);
    let from = stream.allocate_with(&one, as_bytes(input)).unwrap();
    let to = stream.allocate(one.dense_bytes()).unwrap();
    layer.record(stream, &to, &from).unwrap();
    stream.read(to.operand(one)).unwrap().read().unwrap()
}

#[test]
fn the_results_of_a_call_are_not_downloaded() {
    let gpu = unified(3);
    let stream = gpu.stream();
    let layer = Layer::new(&stream);
    stream.synchronize().unwrap();
    let before = stream.counters().commands;
    for seed in 0..20 {
        let input = Layer::input(seed);
        assert_eq!(call_and_read(&layer, &stream, &input), Layer::expected(&input), "{seed}");
    }
    assert_eq!(stream.counters().commands - before, 20, "a product each");
}

#[test]
fn what_is_large_strided_or_not_written_is_copied_by_the_device_unless_it_is_settled() {
    let gpu = unified(4);
    let stream = gpu.stream();
    let count = |read: &dyn Fn() -> Vec<f32>| {
        let before = stream.counters().commands;
        let values = read();
        (values, stream.counters().commands - before)
    };
    let large = matrix(128, 200);
    let values: Vec<f32> = (0..128 * 200).map(|i| i as f32).collect();
    let buffer = stream.allocate_with(&large, as_bytes(&values)).unwrap();
    let read = || stream.read(buffer.operand(large)).unwrap().read().unwrap();
    assert_eq!(count(&read), (values.clone(), 1));
    // The fake device neither transposes nor fills: this is about who copies.
    let transposed = matrix(4, 64).transpose(0, 1).unwrap();
    let strided = || stream.read(buffer.operand(transposed)).unwrap().read::<f32>().unwrap();
    assert_eq!(count(&strided).1, 1);
    buffer.settle().unwrap();
    assert_eq!(count(&read), (values, 0));
    let new = stream.allocate(1024).unwrap();
    let one = matrix(4, 64);
    let unwritten = || stream.read(new.operand(one)).unwrap().read::<f32>().unwrap();
    assert_eq!(
        count(&unwritten).1,
        2,
        "it is cleared, then copied: nobody sees what another left there"
    );
}

#[test]
fn a_read_does_not_end_before_the_device_is_through() {
    let config = Config { wait_timeout: Some(Duration::from_millis(50)), ..Config::default() };
    let gpu = Gpu::with(config, FakeOptions { unified: true, ..FakeOptions::default() });
    let stream = gpu.stream();
    let (layer, one) = (Layer::new(&stream), matrix(ROWS, SIZE));
    stream.synchronize().unwrap();
    let input = Layer::input(1);
    let from = stream.allocate_with(&one, as_bytes(&input)).unwrap();
    let to = stream.allocate(one.dense_bytes()).unwrap();
    gpu.hold();
    layer.record(&stream, &to, &from).unwrap();
    stream.flush().unwrap();
    let early = stream.read(to.operand(one)).unwrap_err();
    assert!(matches!(early, Error::Timeout { .. }), "{early}");
    gpu.release();
    stream.synchronize().unwrap();
    assert_eq!(
        stream.read(to.operand(one)).unwrap().read::<f32>().unwrap(),
        Layer::expected(&input)
    );
}

#[test]
fn a_read_waits_for_every_stream_that_writes() {
    for seed in 1..=10 {
        let gpu = unified(seed);
        let streams = [(); 4].map(|()| gpu.stream());
        let layer = Layer::new(&streams[0]);
        let one = matrix(ROWS, SIZE);
        std::thread::scope(|scope| {
            for (number, stream) in streams.iter().enumerate() {
                let (layer, next) = (&layer, &streams[(number + 1) % 4]);
                scope.spawn(move || {
                    let to = stream.allocate(one.dense_bytes()).unwrap();
                    for round in 0..10 {
                        // The same memory every time, written by another stream than the one that reads it.
                        let input = Layer::input(number * 100 + round);
                        let from = stream.allocate_with(&one, as_bytes(&input)).unwrap();
                        layer.record(next, &to, &from).unwrap();
                        let found = stream.read(to.operand(one)).unwrap();
                        assert_eq!(found.read::<f32>().unwrap(), Layer::expected(&input));
                    }
                });
            }
        });
    }
}

/// Two threads use one buffer. Every value that is read is one that was written, never a mixture.
#[test]
fn a_read_sees_a_write_of_another_thread_whole_or_not_at_all() {
    for seed in 1..=4 {
        let gpu = unified(seed);
        let [writer, reader] = [(); 2].map(|()| gpu.stream());
        let one = matrix(16, 64);
        let shared = writer.allocate_with(&one, as_bytes(&[0f32; 1024])).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=100 {
                    let values = vec![round as f32; 1024];
                    writer.upload(shared.operand(one), &values).unwrap();
                    writer.flush().unwrap();
                }
            });
            let mut last = 0.0;
            while last < 100.0 {
                let found = reader.read(shared.operand(one)).unwrap().read::<f32>().unwrap();
                assert!(found.iter().all(|x| *x == found[0]), "{seed}: {found:?}");
                assert!(found[0] >= last, "{seed}: {} after {last}", found[0]);
                last = found[0];
            }
        });
    }
}
