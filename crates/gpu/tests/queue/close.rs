//! Closing a device.

use millstream_core::Error;

use crate::kit::{Gpu, Layer, until};

/// What a queue keeps until the process ends: its page and its fault record.
const KEPT_PER_QUEUE: usize = 2;

#[test]
fn a_closed_device_gives_its_memory_back() {
    let gpu = Gpu::with_seed(1);
    let streams = [(); 3].map(|()| gpu.stream());
    for (call, stream) in streams.iter().enumerate() {
        let layer = Layer::new(stream);
        for call in call..call + 10 {
            let input = Layer::input(call);
            assert_eq!(layer.call(stream, &input).unwrap(), Layer::expected(&input));
        }
        let large = stream.host_copy_of(&[1u8; 100_000]);
        assert_eq!(large.len(), 100_000);
    }
    gpu.device.close().unwrap();
    assert_eq!(gpu.allocations(), 3 * KEPT_PER_QUEUE);
    assert!(matches!(gpu.device.stream(), Err(Error::DeviceClosed { .. })));
}

#[test]
fn closing_waits_for_what_is_in_flight() {
    for seed in 1..=10 {
        let gpu = Gpu::with_seed(seed);
        let streams = [(); 4].map(|()| gpu.stream());
        let layers = streams.each_ref().map(Layer::new);
        gpu.device.synchronize().unwrap();
        gpu.hold();
        let calls = streams.iter().zip(&layers).enumerate();
        let downloads: Vec<_> = calls
            .map(|(call, (stream, layer))| {
                let download = layer.start(stream, &Layer::input(call)).unwrap();
                stream.flush().unwrap();
                download
            })
            .collect();
        std::thread::scope(|scope| {
            for (call, download) in downloads.into_iter().enumerate() {
                scope.spawn(move || match download.read::<f32>() {
                    Ok(values) => assert_eq!(values, Layer::expected(&Layer::input(call))),
                    // It came to ask when the device was closed.
                    Err(error) => assert!(matches!(error, Error::DeviceClosed { .. }), "{error}"),
                });
            }
            let closing = scope.spawn(|| gpu.device.close());
            std::thread::yield_now();
            gpu.release();
            closing.join().unwrap().unwrap();
        });
        drop(layers);
        until("memory is back", || gpu.allocations() == 4 * KEPT_PER_QUEUE);
    }
}

#[test]
fn threads_that_work_while_a_device_is_closed_get_an_error() {
    for seed in 1..=10 {
        let gpu = Gpu::with_seed(seed);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let gpu = &gpu;
                scope.spawn(move || {
                    let stream = match gpu.device.stream() {
                        Ok(stream) => stream,
                        Err(error) => return assert!(matches!(error, Error::DeviceClosed { .. })),
                    };
                    let Ok(memory) = stream.allocate(16) else { return };
                    for call in 0.. {
                        let value = (thread * 1000 + call) as f32;
                        let row = crate::kit::row(4);
                        let done = stream.upload(memory.operand(row), &[value; 4]);
                        let done = done.and_then(|_| stream.download(memory.operand(row)));
                        match done.and_then(|download| download.read::<f32>()) {
                            Ok(values) => assert_eq!(values, [value; 4]),
                            Err(Error::DeviceClosed { .. }) => return,
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
            until("they work", || gpu.device.counters().submits > 20);
            gpu.device.close().unwrap();
        });
    }
}
