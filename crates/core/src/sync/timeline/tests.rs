use std::time::Duration;

use super::*;

fn reach(timeline: &Timeline, value: u64, deadline: Option<Instant>) -> bool {
    timeline.wait(value, deadline, |now| (now >= value).then_some(())).is_some()
}

#[test]
fn it_never_moves_back() {
    let timeline = Timeline::new();
    timeline.advance(5);
    timeline.advance(3);
    assert_eq!(timeline.value(), 5);
}

#[test]
fn a_wait_ends_at_its_deadline() {
    let timeline = Timeline::new();
    let deadline = Instant::now() + Duration::from_millis(5);
    assert!(!reach(&timeline, 1, Some(deadline)));
    assert!(Instant::now() >= deadline);
    timeline.advance(1);
    assert!(reach(&timeline, 1, Some(deadline)), "done counts, even after the deadline");
}

#[test]
fn many_waiters_are_released_at_their_own_value() {
    let timeline = Timeline::new();
    std::thread::scope(|scope| {
        for value in 1..=16 {
            let timeline = &timeline;
            scope.spawn(move || {
                assert!(reach(timeline, value, None));
                assert!(timeline.value() >= value);
            });
        }
        for value in 1..=16 {
            timeline.advance(value);
        }
    });
}

#[test]
fn a_waiter_sleeps_through_advances_that_are_not_for_it() {
    let timeline = Timeline::new();
    let mut asked = 0;
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            timeline.wait(1000, None, |now| {
                asked += 1;
                (now >= 1000).then_some(())
            })
        });
        while timeline.word.load(Ordering::Relaxed) & WAITING == 0 {
            std::thread::yield_now();
        }
        let sleeps = (1..1000).all(|value| {
            timeline.advance(value);
            // Who is woken is no longer known to wait for anything until it sleeps again.
            lock(&timeline.lanes)[lane_of(1000)].target == 1000
        });
        timeline.advance(1000);
        assert!(waiter.join().unwrap().is_some());
        assert!(sleeps);
    });
    // Before it slept, when it was woken, and a few times for nothing if the system likes.
    assert!(asked < 20, "{asked}");
}
