use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize};
use loom::thread;

use super::*;

/// No lost wake-up, and what the device wrote is visible to whoever waited.
#[test]
fn loom_waits_see_what_was_written_before_the_advance() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let timeline = Arc::new(Timeline::new());
        let result = Arc::new(AtomicUsize::new(0));
        let waiters: Vec<_> = (1..=2)
            .map(|value| {
                let (timeline, result) = (Arc::clone(&timeline), Arc::clone(&result));
                thread::spawn(move || {
                    timeline.wait(value, None, |now| (now >= value).then_some(())).unwrap();
                    assert!(result.load(Ordering::Relaxed) >= value as usize);
                })
            })
            .collect();
        for value in 1..=2 {
            result.store(value, Ordering::Relaxed);
            timeline.advance(value as u64);
        }
        for waiter in waiters {
            waiter.join().unwrap();
        }
    });
}

/// Two who wait in one lane, of whom the first is served by an advance that is too little for the other.
#[test]
fn loom_waiters_of_one_lane_are_all_served() {
    let later = (2..).find(|&value| lane_of(value) == lane_of(1)).unwrap();
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let timeline = Arc::new(Timeline::new());
        let waiters: Vec<_> = [1, later]
            .map(|value| {
                let timeline = Arc::clone(&timeline);
                thread::spawn(move || {
                    timeline.wait(value, None, |now| (now >= value).then_some(())).unwrap();
                })
            })
            .into();
        for value in [1, later] {
            timeline.advance(value);
        }
        for waiter in waiters {
            waiter.join().unwrap();
        }
    });
}

/// A condition outside the counter (a fault, a lost device) releases the waiter too.
#[test]
fn loom_wake_releases_a_waiter() {
    loom::model(|| {
        let timeline = Arc::new(Timeline::new());
        let lost = Arc::new(AtomicBool::new(false));
        let waiter = {
            let (timeline, lost) = (Arc::clone(&timeline), Arc::clone(&lost));
            thread::spawn(move || {
                timeline
                    .wait(1, None, |now| (now >= 1 || lost.load(Ordering::Acquire)).then_some(()))
            })
        };
        lost.store(true, Ordering::Release);
        timeline.wake();
        waiter.join().unwrap().unwrap();
    });
}

/// A condition changes while another thread advances to a value that is not the waiter's: the advance may
/// have cleared the flag, and not yet set it again for those who stay.
#[test]
fn loom_wake_while_advancing_releases_a_waiter() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let timeline = Arc::new(Timeline::new());
        let lost = Arc::new(AtomicBool::new(false));
        let waiter = {
            let (timeline, lost) = (Arc::clone(&timeline), Arc::clone(&lost));
            thread::spawn(move || {
                timeline
                    .wait(9, None, |now| (now >= 9 || lost.load(Ordering::Acquire)).then_some(()))
            })
        };
        let advancer = {
            let timeline = Arc::clone(&timeline);
            thread::spawn(move || timeline.advance(1))
        };
        lost.store(true, Ordering::Release);
        timeline.wake();
        advancer.join().unwrap();
        waiter.join().unwrap().unwrap();
    });
}
