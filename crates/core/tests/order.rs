//! Order of accesses, deadlines, and what memory shows, on the fake device.

mod common;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::*;
use millstream_core::{Buffer, Command, DType, Device, Error, Event, Layout, Stream};

/// A guard against a hang, far above what any machine takes.
const LONG: Duration = Duration::from_secs(60);

/// Threads that use one buffer on streams of their own, at the same moment, with nothing else between them.
fn contend(rounds: usize, work: impl Fn(usize, usize, &Stream, &Buffer) + Sync) {
    let (device, control) = device();
    let streams = [(); 3].map(|()| Stream::new(&device).unwrap());
    let barrier = Barrier::new(streams.len() + 1);
    let buffer = streams[0].allocate(4096).unwrap();
    fill(&streams[0], &buffer).unwrap();
    std::thread::scope(|scope| {
        for (index, stream) in streams.iter().enumerate() {
            let (barrier, buffer, work) = (&barrier, &buffer, &work);
            scope.spawn(move || {
                for round in 0..rounds {
                    barrier.wait();
                    work(round, index, stream, buffer);
                    stream.flush().unwrap();
                    barrier.wait();
                }
            });
        }
        for _ in 0..rounds {
            barrier.wait();
            barrier.wait();
            // All of it was pending at once: the device had every order that was not prescribed.
            control.run_all();
        }
    });
    device.synchronize().unwrap();
    control.assert_no_violations();
}

/// "A write waits for everything": whoever comes second sees the first, on whichever stream.
#[test]
fn two_threads_that_write_one_buffer_are_put_in_order() {
    contend(2000, |_, _, stream, buffer| {
        fill(stream, buffer).unwrap();
    });
}

/// Reads and writes at once, at home and elsewhere; each round begins with a buffer that nobody shares.
#[test]
fn readers_and_writers_of_one_buffer_are_put_in_order() {
    contend(2000, |round, index, stream, buffer| {
        let own = stream.allocate(4096).unwrap();
        if (round + index).is_multiple_of(3) {
            fill(stream, buffer).unwrap();
        } else {
            copy(stream, &own, buffer).unwrap();
        }
    });
}

/// Streams that read a buffer without end do not keep one from writing it: who has waited comes next.
#[test]
fn a_write_comes_through_while_many_streams_read() {
    const READERS: usize = 16;
    let (device, control) = device();
    let writer = Stream::new(&device).unwrap();
    let buffer = writer.allocate(64).unwrap();
    fill(&writer, &buffer).unwrap();
    let (written, begun) = (AtomicBool::new(false), Barrier::new(READERS + 1));
    let guard = Instant::now() + LONG;
    std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                let stream = Stream::new(&device).unwrap();
                let own = stream.allocate(64).unwrap();
                copy(&stream, &own, &buffer).unwrap();
                begun.wait();
                while !written.load(Ordering::Relaxed) && Instant::now() < guard {
                    copy(&stream, &own, &buffer).unwrap();
                }
            });
        }
        begun.wait();
        for _ in 0..5 {
            fill(&writer, &buffer).unwrap();
        }
        written.store(true, Ordering::Relaxed);
    });
    assert!(Instant::now() < guard, "it came when the others had ended");
    device.synchronize().unwrap();
    control.assert_no_violations();
}

/// Reads at home leave no record, so a write from elsewhere waits for all that home has recorded.
#[test]
fn a_write_from_elsewhere_waits_for_reads_at_home() {
    let (device, control) = device();
    let (home, other) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let (buffer, own) = (home.allocate(256).unwrap(), home.allocate(256).unwrap());
    fill(&home, &buffer).unwrap();
    home.synchronize().unwrap();
    copy(&home, &own, &buffer).unwrap();
    fill(&other, &buffer).unwrap();
    other.flush().unwrap();
    assert_eq!(other.counters().waits, 1, "the read may still be under way");
    device.synchronize().unwrap();
    control.assert_no_violations();
}

/// A Command at home of which another operand is shared: what it writes is known to those who come later.
#[test]
fn a_read_from_elsewhere_waits_for_a_write_next_to_a_shared_operand() {
    let (device, control) = device();
    let (home, other) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let [shared, own] = [(); 2].map(|()| home.allocate(256).unwrap());
    let target = other.allocate(256).unwrap();
    fill(&other, &shared).unwrap();
    other.synchronize().unwrap();
    copy(&home, &own, &shared).unwrap();
    copy(&other, &target, &own).unwrap();
    other.flush().unwrap();
    assert_eq!(other.counters().waits, 1, "the write may still be under way");
    device.synchronize().unwrap();
    control.assert_no_violations();
}

/// Two buffers, copied in both directions by two streams at once: neither waits for the other in a circle.
#[test]
fn crossing_copies_do_not_wait_in_a_circle() {
    let (device, control) = device();
    let streams = [(); 2].map(|()| Stream::new(&device).unwrap());
    let buffers = streams.each_ref().map(|stream| stream.allocate(1024).unwrap());
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        for index in 0..2 {
            let (streams, buffers, barrier) = (&streams, &buffers, &barrier);
            scope.spawn(move || {
                for _ in 0..1000 {
                    barrier.wait();
                    copy(&streams[index], &buffers[index], &buffers[1 - index]).unwrap();
                    streams[index].flush().unwrap();
                }
            });
        }
    });
    device.synchronize().unwrap();
    control.assert_no_violations();
}

/// A buffer is settled while another thread writes it: either the write comes first and is waited for, or it
/// is refused.
#[test]
fn settling_and_writing_at_once_is_one_or_the_other() {
    let (device, control) = device();
    let (home, writer) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let barrier = Barrier::new(2);
    for _ in 0..500 {
        let buffer = home.allocate(256).unwrap();
        fill(&home, &buffer).unwrap();
        std::thread::scope(|scope| {
            let written = scope.spawn(|| {
                barrier.wait();
                fill(&writer, &buffer)
            });
            barrier.wait();
            buffer.settle().unwrap();
            match written.join().unwrap() {
                // Recorded before: the contents were waited for.
                Ok(point) => assert!(point.query().unwrap()),
                Err(error) => assert!(matches!(error, Error::Settled { .. }), "{error}"),
            }
        });
    }
    control.assert_no_violations();
}

/// Invariant 5: a deadline bounds everything that the call does, room in a queue included.
#[test]
fn a_deadline_also_bounds_the_wait_for_room() {
    let (device, control) = device_with(|config| {
        config.in_flight = 1;
        config.batch_commands = 1;
        config.wait_timeout = Some(Duration::from_secs(3600));
    });
    let stream = Stream::new(&device).unwrap();
    let buffer = stream.allocate(256).unwrap();
    control.hang(stream.id(), true);
    fill(&stream, &buffer).unwrap();
    let point = fill(&stream, &buffer).unwrap();
    let started = Instant::now();
    let short = Duration::from_millis(5);
    assert!(
        matches!(point.wait_within(short), Err(Error::Timeout { waited, .. }) if waited == short)
    );
    assert!(matches!(stream.synchronize_within(short), Err(Error::Timeout { .. })));
    let event = Event::record(&stream);
    assert!(matches!(event.synchronize_within(short), Err(Error::Timeout { .. })));
    assert!(!point.query().unwrap() && !event.query().unwrap(), "asking waits for nothing");
    assert!(started.elapsed() < LONG);
    control.hang(stream.id(), false);
    stream.synchronize().unwrap();
    control.assert_no_violations();
}

/// Invariant 5: nobody holds a lock while waiting for a device. Other threads use a stream, its buffers and its
/// memory while one waits for it.
#[test]
fn invariant_05_a_stream_that_is_waited_for_can_be_used() {
    let (device, control) =
        device_with(|config| config.wait_timeout = Some(Duration::from_secs(3600)));
    let (stream, other) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let (a, b) = (stream.allocate(256).unwrap(), other.allocate(256).unwrap());
    control.hang(stream.id(), true);
    let point = fill(&stream, &a).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(move || point.wait());
        while device.counters().blocks == 0 {
            std::thread::yield_now();
        }
        // The waiter is inside the device's wait, or about to be: a lock that it held would stop this.
        // Fewer batches than may be in flight.
        for _ in 0..8 {
            fill(&stream, &stream.allocate(256).unwrap()).unwrap();
            copy(&other, &b, &a).unwrap();
            stream.flush().unwrap();
            assert!(!stream.query().unwrap());
            assert!(device.memory().in_use > 0);
        }
        control.hang(stream.id(), false);
        control.run_all();
        waiter.join().unwrap().unwrap();
    });
    device.synchronize().unwrap();
    control.assert_no_violations();
}

/// Memory never shows what another caller left there: what nobody has written is cleared before it is read.
#[test]
fn memory_that_was_never_written_is_cleared_before_it_can_be_read() {
    let (device, control) = device();
    let stream = Stream::new(&device).unwrap();
    let commands = || stream.counters().commands;
    let layout = |from: usize, count: usize| {
        Layout::contiguous(DType::F32, &[count]).unwrap().shifted(from).unwrap()
    };
    let write = |buffer: &Buffer, layout| {
        stream.record(Command::fill(buffer.operand(layout), 1f32).unwrap()).unwrap()
    };
    // All of it is written: nothing is cleared.
    let buffer = stream.allocate(256).unwrap();
    write(&buffer, layout(0, 64));
    stream.download(buffer.operand(layout(0, 64))).unwrap();
    assert_eq!(commands(), 2);
    // One piece behind the other.
    let buffer = stream.allocate(256).unwrap();
    write(&buffer, layout(0, 32));
    write(&buffer, layout(32, 32));
    stream.download(buffer.operand(layout(0, 64))).unwrap();
    assert_eq!(commands(), 5);
    // A gap, elements between which others lie, the rest, and nothing at all: cleared once.
    let gap = stream.allocate(256).unwrap();
    write(&gap, layout(32, 32));
    assert_eq!(commands(), 7);
    let column = stream.allocate(256).unwrap();
    write(&column, Layout::strided(DType::F32, &[8], &[8], 0).unwrap());
    write(&column, Layout::strided(DType::F32, &[8], &[8], 1).unwrap());
    assert_eq!(commands(), 10);
    let part = stream.allocate(256).unwrap();
    write(&part, layout(0, 32));
    stream.download(part.operand(layout(0, 32))).unwrap();
    assert_eq!(commands(), 12);
    stream.download(part.operand(layout(0, 64))).unwrap();
    assert_eq!(commands(), 14);
    let never = stream.allocate(256).unwrap();
    stream.download(never.operand(layout(63, 1))).unwrap();
    assert_eq!(commands(), 16);
    stream.synchronize().unwrap();
    // And of settled contents, all.
    let weights = stream.allocate(256).unwrap();
    write(&weights, layout(0, 32));
    weights.settle().unwrap();
    assert_eq!(commands(), 18);
    control.assert_no_violations();
}

/// The same where several streams use the memory; and what any of them has written is not cleared.
#[test]
fn shared_memory_that_was_never_written_is_cleared_before_it_can_be_read() {
    let (device, control) = device();
    let (home, other) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let half = |from: usize| Layout::contiguous(DType::F32, &[32]).unwrap().shifted(from).unwrap();
    let write = |stream: &Stream, buffer: &Buffer, layout| {
        stream.record(Command::fill(buffer.operand(layout), 1f32).unwrap()).unwrap()
    };
    let download = |buffer: &Buffer| {
        let before = other.counters().commands;
        other.download(whole(buffer)).unwrap();
        other.counters().commands - before
    };
    let buffer = home.allocate(256).unwrap();
    write(&home, &buffer, half(0));
    write(&other, &buffer, half(32));
    assert_eq!(download(&buffer), 1, "all of it was written");
    let buffer = home.allocate(256).unwrap();
    write(&other, &buffer, half(0));
    assert_eq!(download(&buffer), 2, "the rest is cleared");
    assert_eq!(download(&buffer), 1, "once");
    device.synchronize().unwrap();
    control.assert_no_violations();
}

/// Clearing what is unwritten never takes away what another thread writes at that moment.
#[test]
fn clearing_and_writing_at_once_keeps_what_was_written() {
    let (device, control) = device();
    let (first, second) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let barrier = Barrier::new(2);
    for _ in 0..300 {
        let buffer = first.allocate(256).unwrap();
        let before = first.counters().commands + second.counters().commands;
        let own = second.allocate(256).unwrap();
        let (written, read) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                barrier.wait();
                fill(&first, &buffer).unwrap().sequence()
            });
            barrier.wait();
            let read = copy(&second, &own, &buffer).unwrap().sequence();
            (writer.join().unwrap(), read)
        });
        // Cleared by the reader before the write, or not at all: then it was there already.
        let recorded = first.counters().commands + second.counters().commands - before;
        assert!(recorded == 2 || recorded == 3, "{recorded} commands");
        assert!(written > 0 && read > 0);
    }
    device.synchronize().unwrap();
    control.assert_no_violations();
}

/// A call that waits for all streams waits no longer than one that waits for a single one.
#[test]
fn many_streams_that_hang_take_one_timeout_together() {
    const STREAMS: usize = 20;
    let time = Duration::from_millis(500);
    let (device, control) = device_with(|config| config.wait_timeout = Some(time));
    let streams = [(); STREAMS].map(|()| Stream::new(&device).unwrap());
    for stream in &streams {
        fill(stream, &stream.allocate(64).unwrap()).unwrap();
        control.hang(stream.id(), true);
    }
    for call in [|device: Device| device.synchronize(), Device::close] {
        let begun = Instant::now();
        let error = call(device).unwrap_err();
        assert!(matches!(error, Error::Timeout { waited, .. } if waited == time), "{error}");
        // One after the other they would take twice as long.
        assert!(begun.elapsed() < time * STREAMS as u32 / 2);
    }
    streams.iter().for_each(|stream| control.hang(stream.id(), false));
    device.close().unwrap();
    control.assert_no_violations();
}
