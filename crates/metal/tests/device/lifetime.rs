//! More threads than streams, the end of a process, forks.

use std::sync::Barrier;
use std::sync::mpsc::channel;

use millstream::{Device, Error, Stream};
use millstream_metal_driver::control;

use crate::kit::{alone, filled, negated, open, value, warm_up};

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

    /// The process of this test ends while eight threads are in the middle of calls.
    fn the_process_may_end_while_threads_work() {
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
