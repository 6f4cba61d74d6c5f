//! Memory, on the fake device, which checks every access for order and every address for life.

mod common;

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use common::*;
use millstream_core::{BufferLike, Error, Stream};

#[test]
fn a_dropped_block_is_used_again_on_its_stream_at_once() {
    let (device, control) = device();
    let stream = Stream::new(&device).unwrap();
    for _ in 0..100 {
        let buffer = stream.allocate(3 << 20).unwrap();
        fill(&stream, &buffer).unwrap();
    }
    let stats = device.memory();
    assert_eq!(stats.segments, 1, "{stats:?}");
    assert_eq!((stats.in_use, stats.cached), (0, stats.reserved));
    stream.synchronize().unwrap();
    control.assert_no_violations();
}

/// Invariant 7: memory is reused only after every stream that used it has passed that use.
#[test]
fn invariant_07_a_block_another_stream_reads_is_not_used_again_before_that_has_passed() {
    let (device, control) = device();
    let (home, reader) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let own = reader.allocate(2 << 20).unwrap();
    let shared = home.allocate(2 << 20).unwrap();
    fill(&home, &shared).unwrap();
    copy(&reader, &own, &shared).unwrap();
    reader.flush().unwrap();
    control.hang(reader.id(), true);
    drop(shared);
    let next = home.allocate(2 << 20).unwrap();
    assert_eq!(device.memory().deferred, 2 << 20);
    assert_eq!(device.memory().segments, 3, "a new block was needed");
    fill(&home, &next).unwrap();
    home.flush().unwrap();
    control.hang(reader.id(), false);
    device.synchronize().unwrap();
    assert_eq!(device.memory().deferred, 0, "the block is free now");
    control.assert_no_violations();
}

/// The check above can fail: the same order without the wait is noticed.
#[test]
fn the_fake_device_notices_a_race() {
    use millstream_core::{BoundCommand, Command, DType, Layout, Operand, RawBuffer};
    let (device, control) = device();
    let (first, second) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let buffer = first.allocate(1024).unwrap();
    // Two buffers carved from one slab lie side by side; an operand that reaches over would race. The
    // public interface does not let a Command do that, which is the point of its checks.
    let layout = Layout::contiguous(DType::F32, &[257]).unwrap();
    assert!(Command::fill(buffer.operand(layout), 0.0f32).is_err());
    let raw = RawBuffer { address: 64, bytes: 1028 };
    let stray: BoundCommand = Command::fill(Operand::new(raw, layout), 0.0f32).unwrap();
    control.inspect(first.id(), 1, vec![stray.clone()]);
    control.inspect(second.id(), 1, vec![stray]);
    let violations = control.violations();
    assert!(violations.iter().any(|text| text.contains("not allocated")), "{violations:?}");
    assert!(violations.iter().any(|text| text.contains("races")), "{violations:?}");
}

#[test]
fn a_foreign_write_is_waited_for_at_home() {
    let (device, control) = device();
    let (home, writer) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let (shared, own) = (home.allocate(256).unwrap(), home.allocate(256).unwrap());
    fill(&home, &shared).unwrap();
    copy(&home, &own, &shared).unwrap();
    fill(&writer, &shared).unwrap();
    copy(&home, &own, &shared).unwrap();
    home.synchronize().unwrap();
    assert_eq!((writer.counters().waits, home.counters().waits), (1, 1));
    control.assert_no_violations();
}

/// One buffer read by all streams while its owner drops it.
#[test]
fn a_buffer_that_all_streams_read_may_be_dropped_by_its_owner() {
    let (device, control) = device();
    let barrier = Arc::new(Barrier::new(31));
    for _ in 0..5 {
        let home = Stream::new(&device).unwrap();
        let shared = Arc::new(home.allocate(4096).unwrap());
        fill(&home, &shared).unwrap();
        let readers: Vec<_> = (0..31)
            .map(|_| {
                let (shared, barrier) = (Arc::clone(&shared), Arc::clone(&barrier));
                std::thread::spawn(move || {
                    let stream = device.stream().unwrap();
                    let own = stream.allocate(4096).unwrap();
                    barrier.wait();
                    for _ in 0..20 {
                        copy(&stream, &own, &shared).unwrap();
                    }
                    drop(shared);
                    stream.flush().unwrap();
                })
            })
            .collect();
        drop(shared);
        // Home goes on allocating while the others still read.
        for _ in 0..20 {
            let buffer = home.allocate(4096).unwrap();
            fill(&home, &buffer).unwrap();
            home.flush().unwrap();
        }
        for reader in readers {
            reader.join().unwrap();
        }
    }
    device.synchronize().unwrap();
    assert_eq!(device.memory().in_use, 0);
    control.assert_no_violations();
}

/// Invariant 6: weights settle. Reading them records nothing.
#[test]
fn invariant_06_settled_buffers_are_read_without_waits_or_records() {
    let (device, control) = device();
    let home = Stream::new(&device).unwrap();
    let weights = home.allocate(1 << 20).unwrap();
    fill(&home, &weights).unwrap();
    weights.settle().unwrap();
    weights.settle().unwrap();
    assert!(weights.is_settled());
    let streams: Vec<_> = (0..8).map(|_| Stream::new(&device).unwrap()).collect();
    for stream in &streams {
        let own = stream.allocate(1 << 20).unwrap();
        copy(stream, &own, &weights).unwrap();
        assert_eq!(stream.counters().waits, 0);
    }
    assert!(matches!(fill(&home, &weights), Err(Error::Settled { .. })));
    // Dropped while every stream has recorded, but not submitted, a read.
    drop(weights);
    let stats = device.memory();
    assert!(stats.deferred >= 1 << 20, "{stats:?}");
    let next = home.allocate(1 << 20).unwrap();
    fill(&home, &next).unwrap();
    home.flush().unwrap();
    control.assert_no_violations();
    device.synchronize().unwrap();
    device.empty_cache().unwrap();
    drop(next);
    device.empty_cache().unwrap();
    assert_eq!(control.memory_taken(), 0, "{:?}", device.memory());
    control.assert_no_violations();
}

#[test]
fn weights_dropped_on_an_idle_device_are_free_at_once() {
    let (device, control) = device();
    let stream = Stream::new(&device).unwrap();
    let weights = stream.allocate(1 << 20).unwrap();
    fill(&stream, &weights).unwrap();
    weights.settle().unwrap();
    drop(weights);
    assert_eq!(device.memory().deferred, 0);
    device.empty_cache().unwrap();
    assert_eq!(control.memory_taken(), 0);
}

#[test]
fn settling_reports_the_fault_of_the_write() {
    let (device, control) = device();
    let stream = Stream::new(&device).unwrap();
    let weights = stream.allocate(256).unwrap();
    let point = fill(&stream, &weights).unwrap();
    control.fail_command(stream.id(), point.sequence());
    assert!(matches!(weights.settle(), Err(Error::Fault { command: "fill", .. })));
    assert!(!weights.is_settled());
}

#[test]
fn out_of_memory_is_an_error_with_figures_and_the_device_stays_healthy() {
    let (device, control) = device_with(|config| config.memory_limit = Some(8 << 20));
    let stream = Stream::new(&device).unwrap();
    let held: Vec<_> = (0..4).map(|_| stream.allocate(2 << 20).unwrap()).collect();
    let error = stream.allocate(2 << 20).unwrap_err();
    assert_eq!(
        error,
        Error::OutOfMemory {
            device: "fake".into(),
            requested: 2 << 20,
            in_use: 8 << 20,
            cached: 0,
            reserved: 8 << 20,
            limit: 8 << 20,
        }
    );
    assert!(error.is_retryable());
    assert!(matches!(stream.allocate(usize::MAX), Err(Error::OutOfMemory { .. })));
    drop(held);
    assert!(stream.allocate(2 << 20).is_ok(), "memory that comes back is used again");
    assert!(stream.allocate(6 << 20).is_ok(), "in another size as well");
    assert_eq!(device.health().state, millstream_core::HealthState::Healthy);
    control.assert_no_violations();
}

#[test]
fn reclaiming_takes_the_caches_of_other_streams() {
    let (device, control) = device_with(|config| {
        config.memory_limit = Some(8 << 20);
        (config.memory_low, config.memory_high) = (100, 100);
    });
    let (first, second) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    drop(first.allocate(8 << 20).unwrap());
    assert_eq!(device.memory().cached, 8 << 20);
    let buffer = second.allocate(8 << 20).unwrap();
    assert_eq!(device.memory().cached, 0);
    drop(buffer);
    control.assert_no_violations();
}

#[test]
fn reclaiming_submits_and_waits_for_deferred_blocks() {
    let (device, control) = device_with(|config| {
        config.memory_limit = Some(4 << 20);
        config.wait_timeout = Some(std::time::Duration::from_millis(20));
    });
    let (home, reader) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let own = reader.allocate(2 << 20).unwrap();
    let shared = home.allocate(2 << 20).unwrap();
    fill(&home, &shared).unwrap();
    // The read is recorded, not submitted: only reclaiming will do it.
    copy(&reader, &own, &shared).unwrap();
    drop(shared);
    let again = home.allocate(2 << 20).unwrap();
    fill(&home, &again).unwrap();
    copy(&reader, &own, &again).unwrap();
    drop(again);
    // With the reader hung there is no memory, in bounded time, and the device stays well.
    control.hang(reader.id(), true);
    assert!(matches!(home.allocate(2 << 20), Err(Error::OutOfMemory { .. })));
    control.hang(reader.id(), false);
    assert!(home.allocate(2 << 20).is_ok());
    device.synchronize().unwrap();
    control.assert_no_violations();
}

#[test]
fn above_the_high_watermark_caches_are_given_back_to_the_low_one() {
    let (device, control) = device_with(|config| {
        config.memory_limit = Some(16 << 20);
        (config.memory_low, config.memory_high) = (50, 75);
    });
    let stream = Stream::new(&device).unwrap();
    for megabytes in [2, 3, 4] {
        drop(stream.allocate(megabytes << 20).unwrap());
    }
    assert_eq!(device.memory().reserved, 9 << 20, "below the watermark nothing is given back");
    drop(stream.allocate(5 << 20).unwrap());
    assert_eq!(device.memory().reserved, 5 << 20);
    assert_eq!(device.memory().peak, 9 << 20);
    control.assert_no_violations();
}

#[test]
fn a_device_without_memory_recovers_when_it_has_some() {
    let (device, control) = device();
    let stream = Stream::new(&device).unwrap();
    for _ in 0..3 {
        control.no_memory_after(0);
        assert!(matches!(stream.allocate(4 << 20), Err(Error::OutOfMemory { .. })));
        control.memory_again();
        drop(stream.allocate(4 << 20).unwrap());
        device.empty_cache().unwrap();
    }
    assert_eq!(control.memory_taken(), 0);
}

/// What the call frees by itself is a reason to try again, not to wait anew.
#[test]
fn invariant_05_a_shortage_waits_no_longer_than_a_call_may() {
    let time = Duration::from_secs(1);
    // A machine that is busy can take as long for other reasons, but not every time.
    let waited_once = (0..5).any(|_| {
        let (device, control) = device_with(|config| {
            config.memory_limit = Some(4 << 20);
            config.wait_timeout = Some(time);
        });
        let (hung, own) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
        let held = hung.allocate(2 << 20).unwrap();
        control.hang(hung.id(), true);
        fill(&hung, &held).unwrap();
        drop(own.allocate(1 << 20).unwrap());
        let begun = Instant::now();
        assert!(matches!(own.allocate(3 << 20), Err(Error::OutOfMemory { .. })));
        let waited = begun.elapsed();
        control.hang(hung.id(), false);
        device.synchronize().unwrap();
        control.assert_no_violations();
        waited < 2 * time
    });
    assert!(waited_once);
}

#[test]
fn out_of_memory_in_one_thread_while_seven_go_on() {
    let (device, control) = device_with(|config| config.memory_limit = Some(32 << 20));
    let barrier = Arc::new(Barrier::new(8));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let barrier = Arc::clone(&barrier);
            scope.spawn(move || {
                let stream = device.stream().unwrap();
                let own = stream.allocate(64 << 10).unwrap();
                barrier.wait();
                for _ in 0..50 {
                    if thread == 0 {
                        assert!(matches!(
                            stream.allocate(33 << 20),
                            Err(Error::OutOfMemory { .. })
                        ));
                    } else {
                        let buffer = stream.allocate(64 << 10).unwrap();
                        copy(&stream, &buffer, &own).unwrap();
                        stream.synchronize().unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(device.memory().in_use, 0);
    control.assert_no_violations();
}

/// Every stream carves its blocks from slabs of its own: 64 of them must fit into a small budget.
#[test]
fn many_streams_with_a_few_small_blocks_each_fit_into_a_small_budget() {
    let (device, control) = device_with(|config| {
        config.streams = Some(64);
        config.memory_limit = Some(16 << 20);
    });
    let streams: Vec<_> = (0..64).map(|_| Stream::new(&device).unwrap()).collect();
    let mut held = Vec::new();
    for round in 0..4 {
        for stream in &streams {
            held.push(stream.allocate(20_000).unwrap_or_else(|error| {
                panic!("round {round}, {} blocks held: {error}", held.len())
            }));
        }
    }
    assert_eq!(device.memory().in_use, 256 * 20_480);
    drop(held);
    device.empty_cache().unwrap();
    assert_eq!(control.memory_taken(), 0);
    control.assert_no_violations();
}

#[test]
fn empty_cache_gives_everything_unused_back() {
    let (device, control) = device();
    let stream = Stream::new(&device).unwrap();
    let kept = stream.allocate(100).unwrap();
    for size in [1, 1000, 70_000, 5 << 20] {
        drop(stream.allocate(size).unwrap());
    }
    device.empty_cache().unwrap();
    let stats = device.memory();
    // The smallest sizes share a slab, which the kept buffer keeps.
    assert_eq!((stats.in_use, stats.cached, stats.segments), (256, 256, 1), "{stats:?}");
    drop(kept);
    device.empty_cache().unwrap();
    assert_eq!((device.memory().reserved, control.memory_taken()), (0, 0));
    // And it all starts again.
    fill(&stream, &stream.allocate(100).unwrap()).unwrap();
    device.synchronize().unwrap();
    control.assert_no_violations();
}

/// A block is free for its own stream at once, but its segment goes back only when the device is through.
#[test]
fn segments_in_use_are_not_given_back() {
    let (device, control) = device();
    let stream = Stream::new(&device).unwrap();
    control.hang(stream.id(), true);
    let buffer = stream.allocate(1 << 20).unwrap();
    fill(&stream, &buffer).unwrap();
    stream.flush().unwrap();
    drop(buffer);
    device.empty_cache().unwrap();
    assert!(control.memory_taken() >= 1 << 20, "the device may still write there");
    control.hang(stream.id(), false);
    device.synchronize().unwrap();
    device.empty_cache().unwrap();
    assert_eq!(control.memory_taken(), 0);
    control.assert_no_violations();
}

#[test]
fn zero_bytes_are_a_buffer_too() {
    let (device, _) = device();
    let stream = Stream::new(&device).unwrap();
    let buffer = stream.allocate(0).unwrap();
    assert_eq!(buffer.bytes(), 0);
    fill(&stream, &buffer).unwrap();
    stream.synchronize().unwrap();
}

/// What a device replays it knows by its addresses: a thread gets the blocks that it had before, whoever
/// else uses the stream between, and in whatever order they came back.
#[test]
fn a_call_gets_the_blocks_of_the_call_before() {
    let (device, control) = device_with(|config| config.streams = Some(2));
    let addresses = |stream: &Stream, backwards: bool| {
        let mut buffers: Vec<_> = (0..5).map(|_| stream.allocate(1000).unwrap()).collect();
        let addresses: Vec<_> = buffers.iter().map(|buffer| buffer.identity()).collect();
        if backwards {
            buffers.reverse();
        }
        buffers.into_iter().for_each(drop);
        addresses
    };
    let alone = Stream::new(&device).unwrap();
    let first = addresses(&alone, false);
    for round in 0..10 {
        assert_eq!(addresses(&alone, round % 2 == 0), first);
    }
    let shared = Stream::new(&device).unwrap();
    assert_eq!(shared.id(), alone.id());
    let barrier = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let own = addresses(&shared, false);
                barrier.wait();
                for round in 0..200 {
                    assert_eq!(addresses(&shared, round % 2 == 0), own);
                }
            });
        }
    });
    control.assert_no_violations();
}
