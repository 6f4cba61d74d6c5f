//! Faults, on the fake device: the right call gets the right error, and nothing hangs or leaks.

mod common;

use common::*;
use millstream_core::{Error, HealthState, KernelKey, Stream};

fn is_fault(error: &Error, wanted: u64) -> bool {
    matches!(error, Error::Fault { sequence, .. } if *sequence == wanted)
}

/// Invariant 9: errors reach the call that caused them; other streams go on.
#[test]
fn invariant_09_a_fault_fails_its_streams_pending_work_and_nothing_else() {
    let (device, control) = device();
    let (bad, good) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let (a, b, c) =
        (bad.allocate(64).unwrap(), bad.allocate(64).unwrap(), good.allocate(64).unwrap());
    let before = fill(&bad, &a).unwrap();
    let fails = fill(&bad, &b).unwrap();
    let after = copy(&bad, &a, &b).unwrap();
    control.fail_command(bad.id(), fails.sequence());
    let others = fill(&good, &c).unwrap();

    assert!(is_fault(&fails.wait().unwrap_err(), fails.sequence()));
    assert!(is_fault(&after.wait().unwrap_err(), fails.sequence()), "pending work fails with it");
    before.wait().unwrap();
    others.wait().unwrap();
    assert!(is_fault(&bad.synchronize().unwrap_err(), fails.sequence()));
    bad.synchronize().expect("a fault is reported once");

    // What failed cannot be read, here or elsewhere …
    assert!(is_fault(&copy(&bad, &a, &b).unwrap_err(), fails.sequence()));
    assert!(is_fault(&copy(&good, &c, &b).unwrap_err(), fails.sequence()));
    // … but it can be written, and then all is well.
    fill(&bad, &b).unwrap();
    copy(&bad, &a, &b).unwrap();
    copy(&good, &c, &b).unwrap();
    device.synchronize().unwrap();
    assert_eq!(device.health().state, HealthState::Healthy);
    control.assert_no_violations();
}

#[test]
fn a_fault_reaches_streams_that_wait_for_it() {
    let (device, control) = device();
    let (bad, good) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let (a, b) = (bad.allocate(64).unwrap(), good.allocate(64).unwrap());
    let fails = fill(&bad, &a).unwrap();
    control.fail_command(bad.id(), fails.sequence());
    let dependent = copy(&good, &b, &a).unwrap();
    assert!(is_fault(&dependent.wait().unwrap_err(), fails.sequence()));
    fill(&good, &b).unwrap().wait().unwrap();
    control.assert_no_violations();
}

#[test]
fn work_recorded_before_a_fault_was_seen_fails_too() {
    let (device, control) = device();
    let stream = Stream::new(&device).unwrap();
    let (a, b) = (stream.allocate(64).unwrap(), stream.allocate(64).unwrap());
    let fails = fill(&stream, &a).unwrap();
    control.fail_command(stream.id(), fails.sequence());
    stream.flush().unwrap();
    // Recorded while the device has not yet come to the fault; reads what will never be there.
    let reads = copy(&stream, &b, &a).unwrap();
    control.run_all();
    assert!(is_fault(&reads.wait().unwrap_err(), fails.sequence()));
    fill(&stream, &b).unwrap().wait().expect("later work runs");
    control.assert_no_violations();
}

#[test]
fn a_refused_submit_fails_its_batch_alone() {
    let (device, control) = device();
    let (first, second) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let (a, b) = (first.allocate(64).unwrap(), second.allocate(64).unwrap());
    fill(&first, &a).unwrap().wait().unwrap();
    let refused = fill(&first, &a).unwrap();
    control.refuse_submit_after(0);
    assert!(is_fault(&first.flush().unwrap_err(), refused.sequence()));
    assert!(is_fault(&refused.wait().unwrap_err(), refused.sequence()));
    assert!(is_fault(&refused.query().unwrap_err(), refused.sequence()));
    fill(&second, &b).unwrap().wait().unwrap();
    fill(&first, &a).unwrap().wait().unwrap();
    let health = device.health();
    assert_eq!((health.state, health.faults), (HealthState::Healthy, 1));
    assert!(health.last_error.is_some());
    control.assert_no_violations();
}

#[test]
fn a_submit_refused_on_behalf_of_another_stream_reaches_both() {
    let (device, control) = device();
    let (producer, consumer) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let (a, b) = (producer.allocate(64).unwrap(), consumer.allocate(64).unwrap());
    let made = fill(&producer, &a).unwrap();
    control.refuse_submit_after(0);
    assert!(is_fault(&copy(&consumer, &b, &a).unwrap_err(), made.sequence()));
    assert!(is_fault(&made.wait().unwrap_err(), made.sequence()));
    assert_eq!(consumer.counters().commands, 0, "after an error nothing was recorded");
    control.assert_no_violations();
}

#[test]
fn a_refused_full_batch_is_reported_to_those_who_wait() {
    let (device, control) = device_with(|config| config.batch_commands = 2);
    let stream = Stream::new(&device).unwrap();
    let buffer = stream.allocate(64).unwrap();
    control.refuse_submit_after(0);
    let points: Vec<_> = (0..4).map(|_| fill(&stream, &buffer).unwrap()).collect();
    assert!(points[0].wait().is_err() && points[1].wait().is_err());
    assert!(points[2].wait().is_ok() && points[3].wait().is_ok());
    control.assert_no_violations();
}

#[test]
fn a_lost_device_fails_closed() {
    let (device, control) = device();
    let streams: Vec<_> = (0..4).map(|_| Stream::new(&device).unwrap()).collect();
    let buffers: Vec<_> = streams.iter().map(|stream| stream.allocate(64).unwrap()).collect();
    let points: Vec<_> = streams
        .iter()
        .zip(&buffers)
        .map(|(stream, buffer)| fill(stream, buffer).unwrap())
        .collect();
    for stream in &streams {
        stream.flush().unwrap();
    }
    // A thread that already waits is released.
    for stream in &streams {
        control.hang(stream.id(), true);
    }
    let waiting = points[0];
    let waiter = std::thread::spawn(move || waiting.wait());
    while device.counters().blocks == 0 {
        std::thread::yield_now();
    }
    control.lose();
    assert!(matches!(points[1].wait(), Err(Error::DeviceLost { .. })));
    assert!(matches!(waiter.join().unwrap(), Err(Error::DeviceLost { .. })));
    for (stream, buffer) in streams.iter().zip(&buffers) {
        assert!(matches!(fill(stream, buffer), Err(Error::DeviceLost { .. })));
        assert!(matches!(stream.synchronize(), Err(Error::DeviceLost { .. })));
        assert!(matches!(stream.allocate(64), Err(Error::DeviceLost { .. })));
    }
    assert!(matches!(Stream::new(&device), Err(Error::DeviceLost { .. })));
    let health = device.health();
    assert_eq!(health.state, HealthState::Lost);
    assert!(matches!(health.last_error, Some(Error::DeviceLost { .. })));
    drop(buffers);
    control.assert_no_violations();
}

#[test]
fn a_device_lost_at_a_submit_tells_that_call() {
    let (device, control) = device();
    let stream = Stream::new(&device).unwrap();
    let buffer = stream.allocate(64).unwrap();
    let point = fill(&stream, &buffer).unwrap();
    control.lose_after(0);
    assert!(matches!(point.wait(), Err(Error::DeviceLost { .. })));
    assert_eq!(device.health().state, HealthState::Lost);
}

#[test]
fn blocks_of_failed_work_come_back() {
    let (device, control) = device();
    let (home, reader) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    for _ in 0..100 {
        let (a, b) = (home.allocate(1 << 20).unwrap(), reader.allocate(1 << 20).unwrap());
        fill(&home, &a).unwrap();
        let fails = copy(&reader, &b, &a).unwrap();
        control.fail_command(reader.id(), fails.sequence());
        assert!(fails.wait().is_err());
    }
    assert_eq!(device.memory().in_use, 0);
    device.empty_cache().unwrap();
    assert_eq!(control.memory_taken(), 0);
    control.assert_no_violations();
}

/// Invariant 8: compile once; a failed compile can be tried again.
#[test]
fn invariant_08_kernels_are_compiled_once_per_key() {
    let (device, control) = device();
    let key = |size: i64| KernelKey { name: "add".into(), constants: vec![("size".into(), size)] };
    control.fail_compiles(1);
    assert!(matches!(device.kernel(key(0)), Err(Error::Compile { .. })));
    // Same shape, unique shapes and a mix of both, from 16 threads.
    std::thread::scope(|scope| {
        for thread in 0..16 {
            scope.spawn(move || {
                for iteration in 0..50 {
                    device.kernel(key(0)).unwrap();
                    device.kernel(key(1000 + thread)).unwrap();
                    device.kernel(key(iteration % 5)).unwrap();
                }
            });
        }
    });
    assert_eq!(control.compiles(), 1 + 16 + 5);
    assert_eq!(device.kernels_compiled(), 1 + 16 + 5);
}
