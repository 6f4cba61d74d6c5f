//! What becomes of settled buffers that are dropped, on the fake device.

mod common;

use std::time::Duration;

use common::*;
use millstream_core::{Buffer, Stream};

/// A buffer that is written and settled.
fn settled(stream: &Stream, bytes: usize) -> Buffer {
    let buffer = stream.allocate(bytes).unwrap();
    fill(stream, &buffer).unwrap();
    buffer.settle().unwrap();
    buffer
}

#[test]
fn weights_dropped_after_close_are_given_back() {
    let (device, control) = device();
    let stream = Stream::new(&device).unwrap();
    let weights = [settled(&stream, 1 << 20), settled(&stream, 64)];
    device.close().unwrap();
    drop(weights);
    assert_eq!((device.memory().reserved, control.memory_taken()), (0, 0));
}

/// An idle thread would keep them for ever otherwise.
#[test]
fn dropping_weights_submits_what_may_still_read_them() {
    let (device, control) = device();
    let (idle, own) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let weights = settled(&own, 1 << 20);
    let result = idle.allocate(1 << 20).unwrap();
    copy(&idle, &result, &weights).unwrap();
    let submits = idle.counters().submits;
    drop(weights);
    assert_eq!(idle.counters().submits, submits + 1);
    control.run_all();
    device.empty_cache().unwrap();
    assert_eq!(idle.counters().submits, submits + 1);
    assert_eq!(device.memory().reserved, result.bytes(), "the weights are given back");
    control.assert_no_violations();
}

#[test]
fn invariant_05_dropped_weights_wait_for_no_stream() {
    let (device, control) = device_with(|config| {
        config.in_flight = 1;
        config.batch_commands = 1;
        config.wait_timeout = Some(Duration::from_millis(200));
    });
    let (hung, own) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let weights: Vec<Buffer> = (0..8).map(|_| settled(&own, 1 << 20)).collect();
    let result = hung.allocate(1 << 20).unwrap();
    control.hang(hung.id(), true);
    for _ in 0..2 {
        copy(&hung, &result, &weights[0]).unwrap();
    }
    assert_eq!(hung.counters().submits, 1, "there is no room for the second");
    let blocks = device.counters().blocks;
    drop(weights);
    device.empty_cache().unwrap();
    assert_eq!(device.counters().blocks, blocks, "nobody waits");
    control.hang(hung.id(), false);
    hung.synchronize().unwrap();
    device.empty_cache().unwrap();
    assert_eq!(device.memory().reserved, result.bytes());
    control.assert_no_violations();
}
