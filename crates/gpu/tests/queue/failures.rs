//! Calls of the platform that fail.

use millstream_core::{Error, HealthState, Stream};
use millstream_gpu::Failure;

use crate::kit::{Gpu, Layer, deadly, filled, harmless, read, until};

fn answers(gpu: &Gpu) {
    let stream = gpu.stream();
    let layer = Layer::new(&stream);
    let input = Layer::input(1);
    assert_eq!(layer.call(&stream, &input).unwrap(), Layer::expected(&input));
    assert_eq!(gpu.device.health().state, HealthState::Healthy);
}

#[test]
fn a_queue_or_memory_that_cannot_be_had_is_asked_for_again() {
    let gpu = Gpu::new();
    for call in ["new_queue", "allocate"] {
        gpu.fail(call, 0, 1, harmless());
        let made = Stream::new(&gpu.device).and_then(|stream| stream.allocate(8 << 20).map(drop));
        let error = made.unwrap_err();
        assert!(matches!(error, Error::Driver { .. }) && error.is_retryable(), "{error}");
        assert!(error.to_string().contains("as planted"), "{error}");
        assert!(!error.to_string().contains("opened"), "{error}");
        answers(&gpu);
    }
}

#[test]
fn a_lack_of_memory_is_no_fault() {
    let gpu = Gpu::new();
    let mut held = Vec::new();
    let error = loop {
        match gpu.device.allocate(8 << 20) {
            Ok(buffer) => held.push(buffer),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::OutOfMemory { .. }) && held.len() > 5, "{error}");
    drop(held);
    answers(&gpu);
}

#[test]
fn a_command_that_cannot_be_lowered_fails_alone() {
    let gpu = Gpu::new();
    let stream = gpu.stream();
    let layer = Layer::new(&stream);
    stream.synchronize().unwrap();
    for out_of_memory in [false, true] {
        gpu.fail("product", 0, 1, Failure { out_of_memory, ..harmless() });
        let before = read(&stream, &filled(&stream, 1.0));
        let failed = layer.start(&stream, &Layer::input(1)).unwrap();
        let after = read(&stream, &filled(&stream, 2.0));
        stream.flush().unwrap();
        let error = failed.read::<f32>().unwrap_err();
        let kind_fits = match out_of_memory {
            true => matches!(error, Error::OutOfMemory { .. }),
            false => matches!(error, Error::Fault { command: "matmul", .. }),
        };
        assert!(kind_fits, "{error}");
        assert_eq!(before.read::<f32>().unwrap(), [1.0; 4]);
        assert_eq!(after.read::<f32>().unwrap(), [2.0; 4]);
        let input = Layer::input(2);
        assert_eq!(layer.call(&stream, &input).unwrap(), Layer::expected(&input));
    }
    answers(&gpu);
}

#[test]
fn a_launch_that_fails_half_way_fails_what_comes_after_it() {
    // An upload and a download are three launches, of which the last ends the batch.
    for launched in 0..4 {
        let gpu = Gpu::new();
        let stream = gpu.stream();
        let held = [(); 2].map(|()| stream.allocate(16).unwrap());
        let call = |value: f32| {
            let row = crate::kit::row(4);
            held.each_ref().map(|buffer| {
                stream.upload(buffer.operand(row), &[value; 4]).unwrap();
                read(&stream, buffer)
            })
        };
        gpu.fail("launch", launched, 1, harmless());
        for (place, download) in call(1.0).into_iter().enumerate() {
            match download.read::<f32>() {
                Ok(values) => assert!(values == [1.0; 4] && place * 2 + 1 < launched, "{launched}"),
                Err(error) => {
                    assert!(matches!(error, Error::Fault { .. }), "{error}");
                    assert!(error.to_string().contains("as planted"), "{error}");
                    assert!(place * 2 + 1 >= launched, "{launched} {error}");
                }
            }
        }
        for value in 2..6 {
            for download in call(value as f32) {
                assert_eq!(download.read::<f32>().unwrap(), [value as f32; 4], "{launched}");
            }
        }
        answers(&gpu);
    }
}

#[test]
fn a_lost_device_fails_closed() {
    for call in ["launch", "enter", "allocate_host"] {
        let gpu = Gpu::new();
        let (bad, other) = (gpu.stream(), gpu.stream());
        let (buffer, kept) = (filled(&bad, 1.0), filled(&other, 1.0));
        gpu.device.synchronize().unwrap();
        gpu.fail(call, 0, 1, deadly());
        let large = bad.allocate(64 << 10).unwrap();
        let lost = bad.upload(large.operand(crate::kit::bytes(64 << 10)), &vec![0u8; 64 << 10]);
        let lost = lost.and_then(|_| read(&bad, &buffer).read::<f32>().map(drop));
        let error = lost.and_then(|()| bad.synchronize()).unwrap_err();
        assert!(matches!(error, Error::DeviceLost { .. }), "{call}: {error}");
        assert!(error.to_string().contains("as planted"), "{call}: {error}");
        let refused = other.download(kept.operand(crate::kit::row(4)));
        let refused = refused.and_then(|download| download.read::<f32>());
        assert!(matches!(refused, Err(Error::DeviceLost { .. })), "{call}");
        until("health says so", || gpu.device.health().state == HealthState::Lost);
    }
}

#[test]
fn without_an_order_between_queues_the_device_is_lost() {
    let gpu = Gpu::new();
    let (first, second) = (gpu.stream(), gpu.stream());
    gpu.hold();
    let buffer = filled(&first, 1.0);
    first.flush().unwrap();
    gpu.fail("order", 0, 1, harmless());
    let read = second.download(buffer.operand(crate::kit::row(4)));
    let error = read.and_then(|download| download.read::<f32>()).unwrap_err();
    assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    gpu.release();
}

#[test]
fn hardware_that_breaks_while_threads_wait_releases_them() {
    let gpu = Gpu::new();
    let streams = [(); 4].map(|()| gpu.stream());
    let buffers = streams.each_ref().map(|stream| filled(stream, 1.0));
    gpu.device.synchronize().unwrap();
    gpu.hold();
    std::thread::scope(|scope| {
        let waiting: Vec<_> = streams
            .iter()
            .zip(&buffers)
            .map(|(stream, buffer)| scope.spawn(|| read(stream, buffer).read::<f32>()))
            .collect();
        gpu.fail("probe", 10, 1, deadly());
        for waiter in waiting {
            let error = waiter.join().unwrap().unwrap_err();
            assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
        }
    });
    gpu.release();
}

#[test]
fn a_batch_that_the_device_does_not_run_fails_alone_and_so_does_what_is_made_of_it() {
    let gpu = Gpu::new();
    let [stream, other] = [gpu.stream(), gpu.stream()];
    let layer = Layer::new(&stream);
    // The second time the batch is captured, the third time replayed.
    for _ in 0..3 {
        gpu.fail("batch", 0, 1, harmless());
        let made = filled(&stream, 3.0);
        stream.synchronize().unwrap_err();
        // On its own stream and on another one.
        for reader in [&stream, &other] {
            let error = read(reader, &made).read::<f32>().unwrap_err();
            assert!(matches!(error, Error::Fault { command: "upload", .. }), "{error}");
            assert!(error.is_retryable() && error.to_string().contains("as planted"), "{error}");
        }
        let input = Layer::input(1);
        assert_eq!(layer.call(&stream, &input).unwrap(), Layer::expected(&input));
        assert_eq!(read(&other, &filled(&other, 4.0)).read::<f32>().unwrap(), [4.0; 4]);
    }
    answers(&gpu);
}

#[test]
fn a_batch_that_lacks_memory_has_cached_memory_given_back() {
    let gpu = Gpu::new();
    let stream = gpu.stream();
    drop(stream.allocate(16 << 20).unwrap());
    let reserved = || gpu.device.memory().reserved;
    assert!(reserved() >= 16 << 20);
    gpu.fail("batch", 0, 1, Failure { out_of_memory: true, ..harmless() });
    let error = read(&stream, &filled(&stream, 1.0)).read::<f32>().unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { limit, .. } if limit > 0), "{error}");
    assert!(reserved() < 16 << 20, "{} bytes", reserved());
    answers(&gpu);
}

#[test]
fn a_batch_that_loses_the_device_fails_everything() {
    let gpu = Gpu::new();
    let [stream, other] = [gpu.stream(), gpu.stream()];
    let held = filled(&other, 2.0);
    other.synchronize().unwrap();
    gpu.fail("batch", 0, 1, deadly());
    let error = read(&stream, &filled(&stream, 1.0)).read::<f32>().unwrap_err();
    assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    assert!(
        other.download(held.operand(crate::kit::row(4))).and_then(|d| d.read::<f32>()).is_err()
    );
    assert_eq!(gpu.device.health().state, HealthState::Lost);
}
