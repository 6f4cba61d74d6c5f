//! Many threads on few and many streams, while queues lose time as seeds say.

use std::sync::Barrier;

use millstream_core::Config;
use millstream_gpu::fake::FakeOptions;

use crate::kit::{BAD, Gpu, Layer, ROWS, SIZE, Table, expect_fault, matrix, read};

/// As many as `MILLSTREAM_SEEDS` says, or a few.
fn seeds() -> std::ops::RangeInclusive<u64> {
    let count = std::env::var("MILLSTREAM_SEEDS").ok().and_then(|text| text.parse().ok());
    1..=count.unwrap_or(3)
}

fn gpu(seed: u64, streams: u32) -> Gpu {
    let config = Config { streams: Some(streams), ..Config::default() };
    Gpu::with(config, FakeOptions { seed, ..FakeOptions::default() })
}

#[test]
fn threads_get_their_own_answers() {
    for seed in seeds() {
        // Streams of their own, and streams that they share.
        for streams in [16, 3] {
            let gpu = gpu(seed, streams);
            let layer = Layer::new(&gpu.stream());
            let barrier = Barrier::new(8);
            std::thread::scope(|scope| {
                for thread in 0..8 {
                    let (gpu, layer, barrier) = (&gpu, &layer, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        let stream = gpu.device.stream().unwrap();
                        for call in 0..20 {
                            let input = Layer::input(thread * 1000 + call);
                            let got = layer.call_with_own_memory(&stream, &input).unwrap();
                            assert_eq!(got, Layer::expected(&input), "{seed}: {thread}, {call}");
                        }
                    });
                }
            });
            assert_eq!(gpu.device.health().faults, 0);
        }
    }
}

#[test]
fn values_go_from_thread_to_thread() {
    for seed in seeds() {
        let gpu = gpu(seed, 8);
        let streams = [(); 3].map(|()| gpu.stream());
        let layer = Layer::new(&streams[0]);
        let one = matrix(ROWS, SIZE);
        std::thread::scope(|scope| {
            let (first, values) = std::sync::mpsc::sync_channel(4);
            let (second, results) = std::sync::mpsc::sync_channel(4);
            let (layer, streams) = (&layer, &streams);
            scope.spawn(move || {
                for call in 0..40 {
                    let value = streams[0].allocate(one.dense_bytes()).unwrap();
                    streams[0].upload(value.operand(one), &Layer::input(call)).unwrap();
                    first.send(value).unwrap();
                }
            });
            scope.spawn(move || {
                for value in values {
                    let result = streams[1].allocate(one.dense_bytes()).unwrap();
                    layer.record(&streams[1], &result, &value).unwrap();
                    second.send(result).unwrap();
                }
            });
            for (call, result) in results.into_iter().enumerate() {
                let got = streams[2].download(result.operand(one)).unwrap();
                let expected = Layer::expected(&Layer::input(call));
                assert_eq!(got.read::<f32>().unwrap(), expected, "{seed}: {call}");
            }
        });
    }
}

#[test]
fn bad_callers_harm_nobody() {
    for seed in seeds() {
        let gpu = gpu(seed, 4);
        let table = Table::new(&gpu.stream());
        std::thread::scope(|scope| {
            for thread in 0..6i64 {
                let (gpu, table) = (&gpu, &table);
                scope.spawn(move || {
                    let stream = gpu.device.stream().unwrap();
                    for call in 0..40 {
                        let is_bad = thread == 0 || (thread + call) % 7 == 0;
                        let index = if is_bad { BAD } else { call % 3 };
                        let value = read(&stream, &table.look_up(&stream, index));
                        match is_bad {
                            true => drop(expect_fault(value)),
                            false => assert_eq!(value.read::<f32>().unwrap(), [index as f32; 4]),
                        }
                    }
                });
            }
        });
    }
}
