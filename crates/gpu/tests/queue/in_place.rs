//! Memory that host and device share: new values are written where they will be read.

use millstream_core::{Buffer, Config, Stream, as_bytes};
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
