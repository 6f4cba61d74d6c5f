//! More threads than streams, the end of a process, forks.

use std::process::Command as Process;
use std::sync::Barrier;
use std::sync::mpsc::channel;
use std::time::Duration;

use millstream::memory::Layout;
use millstream::{DType, Device, Error, Stream};
use millstream_metal_driver::control;
use millstream_metal_driver::rules::{self, Rule};

use crate::kit::{alone, filled, leave_open, negated, open, open_with, set_number, value, warm_up};

/// Set in a process that is to end in the middle of work.
const ENDS: &str = "MILLSTREAM_METAL_ENDS";

alone! {
    fn the_65th_thread_goes_on_while_64_are_parked_between_record_and_wait() {
        let device = open();
        warm_up(&device.stream().unwrap());
        let (recorded, end) = (Barrier::new(65), Barrier::new(65));
        std::thread::scope(|scope| {
            for thread in 0..64 {
                let (device, recorded, end) = (&device, &recorded, &end);
                scope.spawn(move || {
                    let stream = device.stream().unwrap();
                    let buffer = filled(&stream, thread as f32).unwrap();
                    recorded.wait();
                    end.wait();
                    assert_eq!(value(&stream, &buffer).unwrap(), thread as f32);
                });
            }
            recorded.wait();
            // Nobody holds a command buffer, an encoder or a lock.
            warm_up(&device.stream().unwrap());
            end.wait();
        });
    }

    /// The process ends while eight threads are in the middle of calls, and ends well. `MILLSTREAM_METAL_EXITS` says how often.
    fn the_process_may_end_while_threads_work() {
        if std::env::var_os(ENDS).is_none() {
            for exit in 0..set_number("MILLSTREAM_METAL_EXITS", 5) {
                let ended = Process::new(std::env::current_exe().unwrap()).args(std::env::args_os().skip(1)).env(ENDS, "1").output();
                let ended = ended.unwrap();
                let text = String::from_utf8_lossy(&ended.stderr);
                assert!(ended.status.success(), "exit {exit}: {}: {text}", ended.status);
            }
            return;
        }
        let device = open();
        let (started, all_started) = channel();
        for thread in 0..8 {
            let (device, started) = (device, started.clone());
            std::thread::spawn(move || {
                let stream = device.stream().unwrap();
                for call in 0.. {
                    let number = (thread + call) as f32;
                    let from = filled(&stream, number).unwrap();
                    assert_eq!(value(&stream, &negated(&stream, &from).unwrap()).unwrap(), -number);
                    let _ = started.send(());
                }
            });
        }
        (0..100).for_each(|_| all_started.recv().unwrap());
        leave_open();
    }

    /// The driver counts objects of every class: a device that is closed leaves none, but what the process keeps for the next.
    fn devices_that_are_opened_and_closed_leave_nothing() {
        let mut before = None;
        for round in 0..3 {
            let device = open_with(|builder| builder.batch_commands(64 >> round));
            let streams: Vec<Stream> = (0..3).map(|_| Stream::new(&device).unwrap()).collect();
            streams.iter().for_each(warm_up);
            // Sixteen kilobytes and one more byte lie in memory that the device reaches.
            let stream = &streams[0];
            let large = stream.allocate(20_000).unwrap();
            let layout = Layout::contiguous(DType::U8, &[20_000]).unwrap();
            stream.upload(large.operand(layout), &vec![round as u8; 20_000]).unwrap();
            assert!(stream.download(large.operand(layout)).unwrap().bytes().unwrap().iter().all(|b| *b == round as u8));
            drop(large);
            drop(streams);
            device.close().unwrap();
            let kept = millstream_metal::kept_objects();
            control::expect_left(&kept, Duration::from_secs(20));
            assert_eq!(rules::count(), 0, "round {round}");
            assert_eq!(*before.get_or_insert(kept.clone()), kept, "round {round}");
        }
        // A device that needs larger fault records has the queues and events of the others.
        let device = open_with(|builder| builder.batch_commands(4000));
        warm_up(&device.stream().unwrap());
        let count = |kept: &[(&str, usize)], name: &str| {
            kept.iter().find(|(other, _)| *other == name).map_or(0, |(_, count)| *count)
        };
        let (before, now) = (before.unwrap(), millstream_metal::kept_objects());
        assert_eq!(count(&before, "MTLCommandQueue"), count(&now, "MTLCommandQueue"));
        assert!(count(&before, "MTLBuffer") < count(&now, "MTLBuffer"));
    }

    /// A buffer that is still held when its device is closed is left, and is named.
    fn what_is_left_is_named_with_its_number() {
        let device = open();
        let held = device.stream().unwrap().allocate(4 << 20).unwrap();
        device.close().unwrap();
        control::expect_left(&millstream_metal::kept_objects(), Duration::ZERO);
        let broken = rules::take();
        let left: Vec<_> = broken.iter().filter(|broken| broken.rule == Rule::ObjectsLeft).collect();
        assert!(left.len() == 1 && left[0].text.contains("1 of MillstreamBuffer"), "{broken:?}");
        drop(held);
    }

    fn a_forked_child_gets_an_error() {
        let device = open();
        let stream = device.stream().unwrap();
        warm_up(&stream);
        let buffer = filled(&stream, 1.0).unwrap();
        // SAFETY: the child only calls what is promised to work after a fork, and leaves with `_exit`.
        match unsafe { libc::fork() } {
            0 => {
                let inherited = matches!(stream.synchronize(), Err(Error::Forked { .. }));
                let again = Device::open("metal").err().map(|error| error.to_string());
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
                assert_eq!(value(&stream, &buffer).unwrap(), 1.0);
            }
        }
    }

    fn a_device_without_newer_features_computes_too() {
        control::set_paravirtual(true);
        let device = open();
        let stream = Stream::new(&device).unwrap();
        warm_up(&stream);
        assert_eq!(device.health().state, millstream::device::HealthState::Healthy);
    }
}
