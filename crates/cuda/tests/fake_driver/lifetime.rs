//! The end of a device: closed, lost, forked, or with the process.

use std::time::{Duration, Instant};

use millstream_core::{Device, Error, HealthState, Stream};

use crate::layer::Layer;
use crate::linux::{Test, bytes, open, plant};

pub const TESTS: &[Test] = &[
    ("a_closed_device_gives_its_memory_back", a_closed_device_gives_its_memory_back),
    ("a_lost_device_fails_closed", a_lost_device_fails_closed),
    ("a_forked_child_gets_an_error", a_forked_child_gets_an_error),
    ("main_may_return_while_threads_work", main_may_return_while_threads_work),
];

fn a_closed_device_gives_its_memory_back() {
    for _ in 0..20 {
        let device = open();
        let stream = device.stream().unwrap();
        let layer = Layer::new(&stream).unwrap();
        for call in 0..5 {
            let input = Layer::input(call);
            assert_eq!(layer.call(&stream, &input).unwrap(), Layer::expected(&input));
        }
        // Far more than there is, if the devices before had kept theirs.
        let large = device.allocate(300 << 20).unwrap();
        drop((large, layer));
        device.close().unwrap();
        assert!(matches!(device.stream(), Err(Error::DeviceClosed { .. })));
    }
}

fn a_lost_device_fails_closed() {
    let device = open();
    let (bad, other) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let buffer = other.allocate(16).unwrap();
    plant(&bad, b"DIE").unwrap();
    let started = Instant::now();
    let error = bad.synchronize().unwrap_err();
    assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    assert!(error.to_string().contains("gave CUDA_ERROR_ILLEGAL_ADDRESS"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(5));
    let refused = other.upload(buffer.operand(bytes(16)), &[0u8; 16]);
    assert!(matches!(refused, Err(Error::DeviceLost { .. })));
    assert_eq!(device.health().state, HealthState::Lost);
    let reopened = Device::builder("cuda").open();
    assert!(matches!(reopened, Err(Error::DeviceLost { .. })));
}

fn main_may_return_while_threads_work() {
    let device = open();
    let (started, all_started) = std::sync::mpsc::channel();
    for thread in 0..8 {
        let started = started.clone();
        std::thread::spawn(move || {
            let stream = device.stream().unwrap();
            let layer = Layer::new(&stream).unwrap();
            for call in 0.. {
                let input = Layer::input(thread + call);
                assert_eq!(layer.call(&stream, &input).unwrap(), Layer::expected(&input));
                let _ = started.send(());
            }
        });
    }
    for _ in 0..100 {
        all_started.recv().unwrap();
    }
}

fn a_forked_child_gets_an_error() {
    let device = open();
    let stream = device.stream().unwrap();
    let buffer = stream.allocate(16).unwrap();
    // SAFETY: the child only calls what is promised to work after a fork, and leaves with `_exit`.
    match unsafe { libc::fork() } {
        0 => {
            let inherited = matches!(stream.synchronize(), Err(Error::Forked { .. }));
            let again = Device::open("cuda").err().map(|error| error.to_string());
            drop(buffer);
            let is_reported = again.is_some_and(|text| text.contains("forked"));
            // SAFETY: ends the child without the parent's exit handlers.
            unsafe { libc::_exit(i32::from(!(inherited && is_reported))) }
        }
        child => {
            assert!(child > 0);
            let mut status = 0;
            // SAFETY: `status` is a place for the result.
            unsafe { libc::waitpid(child, &mut status, 0) };
            assert_eq!(status, 0);
            stream.upload(buffer.operand(bytes(16)), &[0u8; 16]).unwrap();
            stream.synchronize().unwrap();
        }
    }
}
