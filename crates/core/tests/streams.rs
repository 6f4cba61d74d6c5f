//! Streams, events and waits, on the fake device.

mod common;

use std::sync::mpsc;
use std::time::{Duration, Instant};

use common::*;
use millstream_core::{Error, Event, HealthState, Stream};

/// Invariant 1: no thread owns a result.
#[test]
fn invariant_01_any_thread_uses_waits_for_and_drops_any_buffer() {
    let (device, control) = device();
    let (send, receive) = mpsc::channel();
    for _ in 0..20 {
        let send = send.clone();
        std::thread::spawn(move || {
            let stream = device.stream().unwrap();
            let buffer = stream.allocate(256).unwrap();
            let point = fill(&stream, &buffer).unwrap();
            send.send((buffer, point)).unwrap();
            // The thread and its lease end here, with the work recorded only.
        });
    }
    drop(send);
    for (buffer, point) in receive {
        let stream = device.stream().unwrap();
        let own = stream.allocate(256).unwrap();
        copy(&stream, &own, &buffer).unwrap();
        drop(buffer);
        stream.synchronize().unwrap();
        assert!(point.query().unwrap());
    }
    device.synchronize().unwrap();
    assert_eq!(device.memory().in_use, 0, "memory comes back from any thread");
    control.assert_no_violations();
}

/// Invariant 3: encoders never escape. Many threads share one stream; the fake device makes, fills and
/// commits a command buffer inside each submit, and notices two submits at once or a wrong order.
#[test]
fn invariant_03_submits_of_a_shared_stream_never_overlap() {
    let (device, control) = device_with(|config| {
        config.streams = Some(2);
        config.batch_commands = 2;
    });
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(move || {
                let stream = device.stream().unwrap();
                let buffer = stream.allocate(64).unwrap();
                for _ in 0..50 {
                    fill(&stream, &buffer).unwrap();
                    stream.flush().unwrap();
                }
            });
        }
    });
    device.synchronize().unwrap();
    assert_eq!(Stream::new(&device).unwrap().counters().commands, 400);
    control.assert_no_violations();
}

/// Invariant 4: waits name submitted work only. The fake device checks every batch.
#[test]
fn invariant_04_depending_on_recorded_work_submits_it_first() {
    let (device, control) = device();
    let (first, second) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let (a, b) = (first.allocate(256).unwrap(), second.allocate(256).unwrap());
    fill(&first, &a).unwrap();
    assert_eq!(control.submits(), 0, "nothing is submitted before somebody needs it");
    copy(&second, &b, &a).unwrap();
    assert_eq!(control.submits(), 1, "the producer's work is submitted");
    second.synchronize().unwrap();
    assert_eq!(second.counters().waits, 1);
    // And back: a cycle between streams, but not between their batches.
    copy(&first, &a, &b).unwrap();
    first.synchronize().unwrap();
    control.assert_no_violations();
}

#[test]
fn a_finished_producer_costs_no_wait() {
    let (device, control) = device();
    let (first, second) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let (a, b) = (first.allocate(256).unwrap(), second.allocate(256).unwrap());
    fill(&first, &a).unwrap();
    first.synchronize().unwrap();
    copy(&second, &b, &a).unwrap();
    second.synchronize().unwrap();
    assert_eq!(second.counters().waits, 0);
    control.assert_no_violations();
}

/// Invariant 5: every wait has a deadline, and the error names stream, sequence number and command.
#[test]
fn invariant_05_a_hung_stream_times_out_with_names_and_others_go_on() {
    let (device, control) =
        device_with(|config| config.wait_timeout = Some(Duration::from_millis(20)));
    let (hung, other) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let (a, b) = (hung.allocate(256).unwrap(), other.allocate(256).unwrap());
    fill(&hung, &a).unwrap();
    control.hang(hung.id(), true);
    copy(&hung, &a, &hung.allocate(256).unwrap()).unwrap();
    let error = hung.synchronize().unwrap_err();
    assert!(
        matches!(&error, Error::Timeout { stream, sequence: 1, command: "fill", .. } if *stream == hung.id()),
        "{error:?}"
    );
    // A lock held by the waiting call would show here.
    fill(&other, &b).unwrap();
    other.synchronize().unwrap();
    assert!(fill(&hung, &a).is_ok(), "recording goes on");
    // A stream that depends on the hung one times out as well, and names it.
    copy(&other, &b, &a).unwrap();
    assert!(matches!(other.synchronize(), Err(Error::Timeout { .. })));
    assert!(matches!(device.synchronize(), Err(Error::Timeout { .. })));
    control.hang(hung.id(), false);
    device.synchronize().unwrap();
    control.assert_no_violations();
}

#[test]
fn a_time_for_one_wait_can_be_given() {
    let (device, control) = device();
    let stream = Stream::new(&device).unwrap();
    let buffer = stream.allocate(256).unwrap();
    let point = fill(&stream, &buffer).unwrap();
    control.hang(stream.id(), true);
    let started = Instant::now();
    assert!(matches!(
        stream.synchronize_within(Duration::from_millis(10)),
        Err(Error::Timeout { .. })
    ));
    assert!(matches!(point.wait_within(Duration::ZERO), Err(Error::Timeout { .. })));
    assert!(started.elapsed() < Duration::from_secs(5));
    control.hang(stream.id(), false);
    // The longest time there is must not overflow.
    point.wait_within(Duration::MAX).unwrap();
}

/// Invariant 11: everything is bounded. In-flight batches: recording waits, and nothing is lost.
#[test]
fn invariant_11_in_flight_batches_are_capped_and_recording_waits() {
    let (device, control) = device_with(|config| {
        config.batch_commands = 2;
        config.in_flight = 3;
    });
    let stream = Stream::new(&device).unwrap();
    let buffer = stream.allocate(256).unwrap();
    for _ in 0..100 {
        fill(&stream, &buffer).unwrap();
    }
    stream.synchronize().unwrap();
    assert_eq!(stream.counters().commands, 100);
    assert_eq!(stream.counters().submits, 50);
    control.assert_no_violations();
}

#[test]
fn a_full_stream_that_hangs_fails_the_recording_call_and_keeps_what_was_recorded() {
    let (device, control) = device_with(|config| {
        config.batch_commands = 1;
        config.in_flight = 1;
        config.wait_timeout = Some(Duration::from_millis(10));
    });
    let stream = Stream::new(&device).unwrap();
    let buffer = stream.allocate(256).unwrap();
    control.hang(stream.id(), true);
    fill(&stream, &buffer).unwrap();
    fill(&stream, &buffer).unwrap();
    assert!(matches!(fill(&stream, &buffer), Err(Error::Timeout { .. })));
    control.hang(stream.id(), false);
    stream.synchronize().unwrap();
    assert_eq!(stream.counters().commands, 2);
    control.assert_no_violations();
}

#[test]
fn commands_gather_until_somebody_needs_them() {
    let (device, control) = device_with(|config| config.batch_commands = 8);
    let stream = Stream::new(&device).unwrap();
    let buffer = stream.allocate(256).unwrap();
    for _ in 0..7 {
        fill(&stream, &buffer).unwrap();
    }
    assert_eq!(control.submits(), 0);
    fill(&stream, &buffer).unwrap();
    assert_eq!(control.submits(), 1, "the batch is large enough");
    fill(&stream, &buffer).unwrap();
    stream.flush().unwrap();
    stream.flush().unwrap();
    assert_eq!(control.submits(), 2, "an empty flush submits nothing");
    let counters = stream.counters();
    assert_eq!((counters.commands, counters.submits, counters.flushes), (9, 2, 1));
    assert_eq!(counters.bytes, 9 * 256);
    assert_eq!(device.counters().commands, 9);
}

#[test]
fn an_event_never_recorded_is_complete() {
    let (device, control) = device();
    let event = Event::new();
    assert!(event.query().unwrap());
    event.synchronize().unwrap();
    event.wait_on(&device.stream().unwrap()).unwrap();
    assert_eq!(control.submits(), 0);
}

#[test]
fn events_order_streams_and_can_be_waited_for_anywhere() {
    let (device, control) = device();
    let (first, second) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let (a, b) = (first.allocate(64).unwrap(), second.allocate(64).unwrap());
    fill(&first, &a).unwrap();
    let event = Event::record(&first);
    fill(&second, &b).unwrap();
    event.wait_on(&second).unwrap();
    fill(&second, &b).unwrap();
    assert_eq!(second.counters().submits, 1, "what came before the wait went on without it");
    control.hang(first.id(), true);
    assert!(!event.query().unwrap());
    assert!(event.synchronize_within(Duration::from_millis(5)).is_err());
    assert!(second.synchronize_within(Duration::from_millis(5)).is_err(), "it waits for the event");
    control.hang(first.id(), false);
    std::thread::spawn(move || event.synchronize().unwrap()).join().unwrap();
    second.synchronize().unwrap();
    control.assert_no_violations();
}

#[test]
fn untimed_events_have_no_elapsed_time() {
    let (device, _) = device();
    let stream = device.stream().unwrap();
    let (first, second) = (Event::record(&stream), Event::record(&stream));
    assert!(matches!(first.elapsed(&second), Err(Error::Invalid { .. })));
}

#[test]
fn buffers_and_points_of_another_device_are_refused() {
    let ((first, _), (second, _)) = (device(), device());
    let (here, there) = (first.stream().unwrap(), second.stream().unwrap());
    let foreign = there.allocate(64).unwrap();
    assert!(matches!(fill(&here, &foreign), Err(Error::WrongDevice { .. })));
    let point = fill(&there, &foreign).unwrap();
    assert!(matches!(here.wait_for(point), Err(Error::WrongDevice { .. })));
}

#[test]
fn synchronize_all_while_eight_threads_work() {
    let (device, control) = device();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(move || {
                let stream = device.stream().unwrap();
                for _ in 0..50 {
                    let buffer = stream.allocate(1024).unwrap();
                    fill(&stream, &buffer).unwrap();
                }
            });
        }
        for _ in 0..50 {
            device.synchronize().unwrap();
        }
    });
    device.synchronize().unwrap();
    assert_eq!(device.counters().commands, 400);
    control.assert_no_violations();
}

/// A stream hangs with work that came while the device was being closed: it was looked at already, and what is in flight there must
/// not meet a queue that is closed.
#[test]
fn a_device_is_not_closed_while_work_that_came_late_is_in_flight() {
    let (device, control) =
        device_with(|config| config.wait_timeout = Some(Duration::from_millis(200)));
    let [early, late] = [(); 2].map(|()| Stream::new(&device).unwrap());
    let [first, second] = [(); 2].map(|()| early.allocate(64).unwrap());
    fill(&early, &first).unwrap().wait().unwrap();
    assert!(early.id() < late.id(), "streams are waited for in this order");
    fill(&late, &second).unwrap();
    control.at_next_wait({
        let (control, early) = (control.clone(), early.clone());
        move || {
            control.hang(early.id(), true);
            fill(&early, &first).unwrap();
            early.flush().unwrap();
        }
    });
    assert!(matches!(device.close(), Err(Error::Timeout { stream, .. }) if stream == early.id()));
    assert_eq!(device.health().state, HealthState::Healthy, "it is open");
    control.hang(early.id(), false);
    device.synchronize().unwrap();
    device.close().unwrap();
    control.assert_no_violations();
}

#[test]
fn a_closed_device_refuses_every_call_and_frees_its_memory() {
    let (device, control) = device();
    let stream = Stream::new(&device).unwrap();
    let kept = stream.allocate(1 << 20).unwrap();
    let point = fill(&stream, &kept).unwrap();
    drop(stream.allocate(1 << 20).unwrap());
    device.close().unwrap();
    assert!(matches!(stream.allocate(1), Err(Error::DeviceClosed { .. })));
    assert!(matches!(fill(&stream, &kept), Err(Error::DeviceClosed { .. })));
    assert!(matches!(point.wait(), Err(Error::DeviceClosed { .. })));
    assert!(matches!(device.synchronize(), Err(Error::DeviceClosed { .. })));
    assert!(matches!(device.close(), Err(Error::DeviceClosed { .. })));
    assert!(control.memory_taken() > 0, "a live buffer keeps its memory");
    drop(kept);
    assert_eq!(control.memory_taken(), 0);
    control.assert_no_violations();
}
