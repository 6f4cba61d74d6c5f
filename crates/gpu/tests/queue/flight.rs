//! What is in flight, and how it is taken off.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use millstream_core::{Config, Error};
use millstream_gpu::fake::FakeOptions;

use crate::kit::{Gpu, Layer, filled, read, until};

#[test]
fn no_more_batches_are_in_flight_than_allowed_and_waits_end_at_their_deadline() {
    const IN_FLIGHT: usize = 3;
    let limit = Duration::from_secs(60);
    let config = Config { in_flight: IN_FLIGHT, wait_timeout: Some(limit), ..Config::default() };
    let gpu = Gpu::with(config, FakeOptions::default());
    let stream = gpu.stream();
    gpu.hold();
    let mut downloads = Vec::new();
    for value in 0..IN_FLIGHT {
        downloads.push(read(&stream, &filled(&stream, value as f32)));
        stream.flush().unwrap();
    }
    // Nothing more is taken.
    let last = filled(&stream, 9.0);
    let started = Instant::now();
    let error = stream.timepoint().wait_within(Duration::from_millis(20)).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert!(started.elapsed() < limit / 2, "{:?}", started.elapsed());
    assert!(downloads.iter().all(|download| !download.timepoint().query().unwrap()));
    gpu.release();
    assert_eq!(read(&stream, &last).read::<f32>().unwrap(), [9.0; 4]);
    for (value, download) in downloads.into_iter().enumerate() {
        assert_eq!(download.read::<f32>().unwrap(), [value as f32; 4]);
    }
}

#[test]
fn batches_pass_in_order_whoever_takes_them_off() {
    const POINTS: usize = 40;
    for seed in 1..=3 {
        let gpu = Gpu::with_seed(seed);
        let stream = gpu.stream();
        let buffer = filled(&stream, 0.0);
        stream.synchronize().unwrap();
        for _ in 0..2 {
            let points: Vec<_> = (0..POINTS)
                .map(|_| {
                    let point = read(&stream, &buffer).timepoint();
                    stream.flush().unwrap();
                    point
                })
                .collect();
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        while !is_over.load(Ordering::Relaxed) {
                            let passed = |index: &usize| points[*index].query().unwrap();
                            // The last that has passed is looked for first, then those before it.
                            if let Some(last) = (0..POINTS).rev().find(passed) {
                                assert!((0..last).all(|index| passed(&index)), "seed {seed}");
                            }
                        }
                    });
                }
                points[POINTS - 1].wait().unwrap();
                is_over.store(true, Ordering::Relaxed);
            });
        }
    }
}

#[test]
fn threads_that_are_parked_are_woken() {
    let gpu = Gpu::with_seed(3);
    let layer = Layer::new(&gpu.stream());
    gpu.device.synchronize().unwrap();
    gpu.hold();
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..16)
            .map(|thread| {
                let (gpu, layer) = (&gpu, &layer);
                scope.spawn(move || {
                    let stream = gpu.stream();
                    let input = Layer::input(thread);
                    let got = layer.call_with_own_memory(&stream, &input).unwrap();
                    assert_eq!(got, Layer::expected(&input), "{thread}");
                })
            })
            .collect();
        // Long enough for all of them to have parked, with nobody but the watcher to wake them.
        until("all have recorded", || gpu.device.counters().submits >= 16);
        let parked = Instant::now() + Duration::from_millis(5);
        until("they are parked", || Instant::now() > parked);
        gpu.release();
        calls.into_iter().for_each(|call| call.join().unwrap());
    });
}

#[test]
fn the_profiler_has_spans_of_the_device() {
    let gpu = Gpu::new();
    let stream = gpu.stream();
    let layer = Layer::new(&stream);
    stream.synchronize().unwrap();
    gpu.device.profiler().start();
    let begun = millstream_core::profiler::now_ns();
    for call in 0..10 {
        let input = Layer::input(call);
        assert_eq!(layer.call(&stream, &input).unwrap(), Layer::expected(&input));
    }
    let ended = millstream_core::profiler::now_ns();
    let traces = gpu.device.profiler().take();
    let spans: Vec<_> = traces.into_iter().flat_map(|trace| trace.spans).collect();
    let names: Vec<_> = spans.iter().map(|span| span.kind.name()).collect();
    assert_eq!(names, ["upload", "matmul", "download"].repeat(10));
    let slack = 5_000_000;
    for span in &spans {
        assert!(span.start_ns <= span.end_ns);
        assert!(span.start_ns + slack > begun && span.end_ns < ended + slack, "{span:?}");
    }
}
