//! Who has which stream, on the fake device: threads, leases, scopes, and pools with fewer streams than threads.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use common::*;
use millstream_core::fake::{self, FakeControl};
use millstream_core::{Config, Device, Error, Exhaustion, Stream};

#[test]
fn a_thread_keeps_its_stream_and_gives_it_back_at_its_end() {
    let (device, _) = device();
    assert_eq!(device.free_streams(), 31);
    let id = std::thread::spawn(move || {
        let first = device.stream().unwrap().id();
        assert_eq!(device.stream().unwrap().id(), first);
        assert_eq!(device.free_streams(), 30);
        first
    })
    .join()
    .unwrap();
    assert_ne!(id, 0, "stream 0 is the main thread's");
    assert_eq!(device.free_streams(), 31);
}

#[test]
fn thread_churn_leaks_no_stream() {
    let (device, control) = device();
    for _ in 0..1000 {
        std::thread::spawn(move || {
            let stream = device.stream().unwrap();
            fill(&stream, &stream.allocate(64).unwrap()).unwrap();
        })
        .join()
        .unwrap();
    }
    for _ in 0..50 {
        let threads: Vec<_> =
            (0..8).map(|_| std::thread::spawn(move || device.stream().unwrap().id())).collect();
        for thread in threads {
            thread.join().unwrap();
        }
    }
    assert_eq!(device.free_streams(), 31);
    device.synchronize().unwrap();
    assert_eq!(device.counters().commands, 1000);
    assert_eq!(device.memory().in_use, 0);
    control.assert_no_violations();
}

/// 40 threads at once: what each got, as stream numbers or errors.
fn forty_threads(exhaustion: Exhaustion, held: Duration) -> Vec<Result<u32, Error>> {
    let (device, _) = device_with(|config| config.exhaustion = exhaustion);
    let barrier = Arc::new(Barrier::new(40));
    let threads: Vec<_> = (0..40)
        .map(|_| {
            let barrier = Arc::clone(&barrier);
            std::thread::spawn(move || {
                barrier.wait();
                let stream = device.stream().map(|stream| stream.id());
                if held.is_zero() {
                    // Nobody leaves before everybody has asked.
                    barrier.wait();
                }
                stream
            })
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

#[test]
fn exhaustion_fail_serves_31_of_40_and_refuses_9() {
    let results = forty_threads(Exhaustion::Fail, Duration::ZERO);
    let mut served: Vec<u32> = results.iter().filter_map(|result| result.clone().ok()).collect();
    served.sort_unstable();
    assert_eq!(served, (1..=31).collect::<Vec<_>>(), "each stream is leased once");
    let refused: Vec<_> = results.into_iter().filter_map(Result::err).collect();
    assert_eq!(refused.len(), 9);
    assert!(
        refused.iter().all(|error| matches!(error, Error::StreamsExhausted { streams: 31, .. }))
    );
}

#[test]
fn exhaustion_wait_with_a_time_refuses_after_it() {
    let time = Duration::from_millis(50);
    let (device, control) = device_with(|config| config.exhaustion = Exhaustion::Wait(Some(time)));
    let (used, refused) = (Barrier::new(32), Barrier::new(32));
    std::thread::scope(|scope| {
        for _ in 0..31 {
            scope.spawn(|| {
                let stream = device.stream().unwrap();
                fill(&stream, &stream.allocate(64).unwrap()).unwrap();
                used.wait();
                refused.wait();
            });
        }
        used.wait();
        let askers: Vec<_> = (0..9).map(|_| scope.spawn(|| device.stream())).collect();
        for asker in askers {
            match asker.join().unwrap() {
                Err(Error::StreamsExhausted { streams: 31, waited, .. }) => {
                    assert!(waited >= time, "{waited:?}");
                }
                other => panic!("{other:?}"),
            }
        }
        refused.wait();
    });
    control.assert_no_violations();
}

#[test]
fn exhaustion_wait_serves_everybody_in_the_end() {
    let results = forty_threads(Exhaustion::Wait(None), Duration::from_millis(1));
    assert!(results.iter().all(Result::is_ok));
}

/// Whatever the setting is: no wait, no share, no error.
#[test]
fn a_stream_that_is_free_now_can_be_asked_for() {
    for exhaustion in [Exhaustion::Share, Exhaustion::Wait(None), Exhaustion::Fail] {
        let (device, _) = device_with(|config| {
            (config.streams, config.exhaustion) = (Some(2), exhaustion);
        });
        let own = Stream::try_new(&device).unwrap().expect("one is free");
        assert_eq!((own.id(), device.free_streams()), (1, 0));
        assert!(Stream::try_new(&device).unwrap().is_none());
        drop(own);
        assert!(Stream::try_new(&device).unwrap().is_some());
        device.close().unwrap();
        assert!(matches!(Stream::try_new(&device), Err(Error::DeviceClosed { .. })));
    }
}

#[test]
fn exhaustion_share_serves_everybody_at_once_and_counts_it() {
    let results = forty_threads(Exhaustion::Share, Duration::ZERO);
    assert!(results.iter().all(Result::is_ok));
    let (device, control) = device_with(|config| config.streams = Some(2));
    let leased = Stream::new(&device).unwrap();
    let shared = Stream::new(&device).unwrap();
    assert_eq!(leased.id(), shared.id());
    assert_eq!(shared.counters().shares, 1);
    let buffer = leased.allocate(64).unwrap();
    fill(&leased, &buffer).unwrap();
    fill(&shared, &buffer).unwrap();
    device.synchronize().unwrap();
    control.assert_no_violations();
}

/// Threads that share a stream do not share its batches: whoever comes lets the other finish, and after a
/// while submits for it.
#[test]
fn a_batch_of_a_shared_stream_holds_the_commands_of_one_thread() {
    let (device, control) = device_with(|config| config.streams = Some(2));
    let streams = [(); 2].map(|()| Stream::new(&device).unwrap());
    let buffers = streams.each_ref().map(|stream| stream.allocate(64).unwrap());
    let [first, second] = &streams;
    let elsewhere = |work: &(dyn Fn() + Sync)| {
        std::thread::scope(|scope| scope.spawn(work).join().unwrap());
    };
    for round in 0..2 {
        for _ in 0..3 {
            fill(first, &buffers[0]).unwrap();
        }
        assert_eq!(first.counters().submits, round * 3, "nobody else came");
        elsewhere(&|| {
            for _ in 0..2 {
                fill(second, &buffers[1]).unwrap();
            }
            assert_eq!(second.counters().submits, round * 3 + 1, "only what was there before");
        });
        // What was recorded by another thread goes first, and is not mixed with this.
        fill(first, &buffers[0]).unwrap();
        assert_eq!(first.counters().submits, round * 3 + 2);
        fill(first, &buffers[0]).unwrap();
        first.synchronize().unwrap();
        assert_eq!(first.counters().submits, round * 3 + 3);
        assert_eq!(first.counters().commands, (round + 1) * 7);
    }
    control.assert_no_violations();
}

/// Where threads record without asking for results, waiting for each other would be in vain, and batches of
/// one Command would be dear.
#[test]
fn lazy_threads_that_share_a_stream_mix_their_batches() {
    let (device, control) = device_with(|config| config.streams = Some(2));
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let stream = Stream::new(&device).unwrap();
                let buffer = stream.allocate(64).unwrap();
                for _ in 0..500 {
                    // In turn, so that every Command finds one of the other thread before it.
                    barrier.wait();
                    fill(&stream, &buffer).unwrap();
                }
            });
        }
    });
    device.synchronize().unwrap();
    let counters = device.counters();
    assert_eq!(counters.commands, 1000);
    assert!(counters.submits < 200, "{counters:?}");
    control.assert_no_violations();
}

#[test]
fn a_pool_of_one_stream_works() {
    let (device, _) = device_with(|config| config.streams = Some(1));
    assert_eq!(Stream::new(&device).unwrap().id(), 0);
    let (failing, _) = device_with(|config| {
        config.streams = Some(1);
        config.exhaustion = Exhaustion::Wait(None);
    });
    assert!(
        matches!(Stream::new(&failing), Err(Error::StreamsExhausted { .. })),
        "no endless wait"
    );
}

#[test]
fn explicit_streams_are_leased_until_the_last_clone_is_dropped() {
    let (device, _) = device();
    let stream = Stream::new(&device).unwrap();
    let clone = stream.clone();
    drop(stream);
    assert_eq!(device.free_streams(), 30);
    drop(clone);
    assert_eq!(device.free_streams(), 31);
}

#[test]
fn a_scope_sets_the_current_stream_and_restores_it() {
    let (device, _) = device();
    let own = device.stream().unwrap().id();
    let (outer, inner) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    outer.scope(|| {
        assert_eq!(device.stream().unwrap().id(), outer.id());
        inner.scope(|| assert_eq!(device.stream().unwrap().id(), inner.id()));
        assert_eq!(device.stream().unwrap().id(), outer.id());
    });
    assert_eq!(device.stream().unwrap().id(), own);
    let panicked = std::panic::catch_unwind(|| outer.scope(|| panic!("in scope")));
    assert!(panicked.is_err());
    assert_eq!(device.stream().unwrap().id(), own, "a panic restores it too");
    inner.make_current();
    assert_eq!(device.stream().unwrap().id(), inner.id());
}

#[test]
fn scopes_of_several_devices_do_not_disturb_each_other() {
    let ((first, _), (second, _)) = (device(), device());
    let stream = Stream::new(&first).unwrap();
    stream.scope(|| {
        // The second device's stream is leased inside the scope and outlives it.
        second.stream().unwrap();
        assert_eq!(first.stream().unwrap().id(), stream.id());
    });
    let held = second.free_streams();
    second.stream().unwrap();
    assert_eq!(second.free_streams(), held);
    assert_eq!(held, 30);
}

/// Not a time that a test may depend on: how long a broken pool is waited for.
const LONG: Duration = Duration::from_secs(60);

/// A fake device on which threads wait for so many streams, at most so long.
fn waiting_device(streams: u32, time: Duration) -> (Device, FakeControl) {
    device_with(|config| {
        config.streams = Some(streams + 1);
        config.exhaustion = Exhaustion::Wait(Some(time));
    })
}

/// A call as of a model: two commands on the thread's current stream, and their result.
fn call(device: Device) -> Result<(), Error> {
    let buffer = device.allocate(64)?;
    fill(&Stream::current_unleased(&device)?, &buffer)?;
    Stream::current_unleased(&device)?.download(whole(&buffer))?.bytes().map(drop)
}

/// `work` on a thread of its own, which has ended when this returns.
fn elsewhere<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

/// Threads that live for four rounds and threads that live for one: each makes its call, and idles until all
/// have made theirs. Returns how many calls failed.
fn failed_calls(device: Device, lasting: usize, passing: usize) -> usize {
    let idle = Barrier::new(lasting + passing);
    let failed = AtomicUsize::new(0);
    let round = || {
        if call(device).is_err() {
            failed.fetch_add(1, Ordering::Relaxed);
        }
        idle.wait();
    };
    std::thread::scope(|scope| {
        let lasting: Vec<_> =
            (0..lasting).map(|_| scope.spawn(|| (0..4).for_each(|_| round()))).collect();
        for _ in 0..4 {
            let passing: Vec<_> = (0..passing).map(|_| scope.spawn(round)).collect();
            passing.into_iter().for_each(|thread| thread.join().unwrap());
        }
        // Only a join waits until a thread has given back what is its own.
        lasting.into_iter().for_each(|thread| thread.join().unwrap());
    });
    failed.into_inner()
}

#[test]
fn idle_threads_do_not_keep_streams_from_those_who_wait() {
    let (device, control) = waiting_device(2, LONG);
    assert_eq!(failed_calls(device, 48, 16), 0);
    assert_eq!(device.free_streams(), 2, "all are given back in the end");
    let (device, _) = waiting_device(3, LONG);
    assert_eq!(failed_calls(device, 8, 0), 0);
    control.assert_no_violations();
}

#[test]
fn a_thread_with_unsubmitted_work_keeps_its_stream_until_it_submits() {
    let (device, control) = waiting_device(1, Duration::from_millis(20));
    elsewhere(|| {
        let stream = device.stream().unwrap();
        let point = fill(&stream, &stream.allocate(64).unwrap()).unwrap();
        assert!(matches!(elsewhere(|| call(device)), Err(Error::StreamsExhausted { .. })));
        assert_eq!(device.stream().unwrap().id(), stream.id());
        stream.flush().unwrap();
        elsewhere(|| call(device)).unwrap();
        point.wait().unwrap();
        call(device).unwrap();
    });
    control.assert_no_violations();
}

/// A wait belongs to what comes after it on the stream, as a command does.
#[test]
fn a_thread_whose_next_command_must_wait_keeps_its_stream() {
    let (device, _) = waiting_device(1, Duration::from_millis(20));
    let other = Stream::default_of(&device).unwrap();
    let point = fill(&other, &other.allocate(64).unwrap()).unwrap();
    elsewhere(|| {
        call(device).unwrap();
        let stream = device.stream().unwrap();
        stream.wait_for(point).unwrap();
        assert!(matches!(elsewhere(|| call(device)), Err(Error::StreamsExhausted { .. })));
        call(device).unwrap();
        elsewhere(|| call(device)).unwrap();
    });
}

#[test]
fn an_open_scope_keeps_its_stream() {
    let (device, _) = waiting_device(1, Duration::from_millis(20));
    elsewhere(|| {
        call(device).unwrap();
        device.stream().unwrap().scope(|| {
            call(device).unwrap();
            assert!(matches!(elsewhere(|| call(device)), Err(Error::StreamsExhausted { .. })));
        });
        elsewhere(|| call(device)).unwrap();
    });
    let explicit = Stream::new(&device).unwrap();
    assert!(matches!(elsewhere(|| call(device)), Err(Error::StreamsExhausted { .. })));
    drop(explicit);
    elsewhere(|| call(device)).unwrap();
}

/// The scope of one thread on the stream of another, which ends meanwhile.
#[test]
fn a_scope_keeps_the_stream_of_a_thread_that_has_ended() {
    let (device, _) = waiting_device(1, Duration::from_millis(20));
    let (send, receive) = std::sync::mpsc::channel();
    let begun = Barrier::new(2);
    std::thread::scope(|scope| {
        let owner = scope.spawn(|| {
            send.send(device.stream().unwrap()).unwrap();
            begun.wait();
        });
        receive.recv().unwrap().scope(|| {
            begun.wait();
            owner.join().unwrap();
            assert_eq!(device.free_streams(), 0);
            assert!(matches!(elsewhere(|| call(device)), Err(Error::StreamsExhausted { .. })));
        });
    });
    assert_eq!(device.free_streams(), 1);
}

/// A thread may lease a stream, as by allocating, and never record anything.
#[test]
fn a_thread_that_never_uses_its_stream_does_not_keep_it() {
    let (device, _) = waiting_device(1, LONG);
    elsewhere(|| {
        let buffer = device.allocate(64).unwrap();
        elsewhere(|| call(device)).unwrap();
        fill(&device.stream().unwrap(), &buffer).unwrap();
    });
}

#[test]
fn a_handle_of_a_stream_that_has_gone_to_another_thread_still_works() {
    let (device, control) = waiting_device(1, LONG);
    elsewhere(|| {
        call(device).unwrap();
        let old = device.stream().unwrap();
        let buffer = old.allocate(64).unwrap();
        let (taken, is_taken) = std::sync::mpsc::channel();
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                call(device).unwrap();
                taken.send(()).unwrap();
                // Until the other side is dropped.
                is_done.recv().unwrap_err();
            });
            is_taken.recv().unwrap();
            // What it records through the old handle does not keep the stream from itself.
            fill(&old, &buffer).unwrap();
            let result = call(device);
            drop(done);
            result.unwrap();
        });
        old.synchronize().unwrap();
    });
    control.assert_no_violations();
}

#[test]
fn a_stream_that_is_no_longer_shared_takes_no_turns() {
    let (device, _) = device_with(|config| config.streams = Some(2));
    let own = Stream::new(&device).unwrap();
    let buffer = own.allocate(64).unwrap();
    let share = Stream::new(&device).unwrap();
    fill(&own, &buffer).unwrap();
    elsewhere(|| fill(&share, &buffer)).unwrap();
    assert_eq!(own.counters().submits, 1, "a batch of each");
    own.synchronize().unwrap();
    drop(share);
    // A thread that shares, and ends.
    elsewhere(|| call(device)).unwrap();
    let (shares, submits) = (own.counters().shares, own.counters().submits);
    assert_eq!(shares, 2);
    fill(&own, &buffer).unwrap();
    elsewhere(|| fill(&own, &buffer)).unwrap();
    assert_eq!(own.counters().submits, submits, "one batch");
}

#[test]
fn a_device_has_at_most_64_streams() {
    let open = |streams| {
        let config = Config { streams: Some(streams), ..config() };
        fake::device(config, MEMORY, 1).map(|(device, _)| device)
    };
    assert!(matches!(open(65), Err(Error::InvalidConfig { .. })));
    assert!(matches!(open(0), Err(Error::InvalidConfig { .. })));
    let device = open(64).unwrap();
    let held: Vec<_> = (0..80).map(|_| Stream::new(&device).unwrap()).collect();
    let ids: std::collections::BTreeSet<u32> = held.iter().map(Stream::id).collect();
    assert_eq!(ids, (1..64).collect());
}

/// What a caller's next Command was to wait for does not keep whoever gets the stream after it.
#[test]
fn a_wait_that_nothing_followed_ends_with_its_lease() {
    let (device, control) = device_with(|config| config.streams = Some(3));
    let hung = Stream::new(&device).unwrap();
    let never = fill(&hung, &hung.allocate(64).unwrap()).unwrap();
    control.hang(hung.id(), true);
    let leased = Stream::new(&device).unwrap();
    leased.wait_for(never).unwrap();
    let slot = leased.id();
    drop(leased);
    let next = Stream::new(&device).unwrap();
    assert_eq!(next.id(), slot);
    fill(&next, &next.allocate(64).unwrap()).unwrap().wait().unwrap();
    control.hang(hung.id(), false);
    device.synchronize().unwrap();
    control.assert_no_violations();
}
