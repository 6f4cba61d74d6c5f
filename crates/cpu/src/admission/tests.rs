use std::sync::Barrier;
use std::thread::scope;

use super::*;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

/// A permit for a caller, now or in line.
fn enter(admission: &Admission, stream: u32) -> Option<Permit> {
    admission.enter_now(stream).or_else(|| admission.enter(soon()))
}

/// A time that no test lives to see.
const FAR: u64 = 1 << 60;

/// A pool of one permit in the hands of `stream`, whose caller has come straight back before.
fn held_by(stream: u32) -> (Admission, Permit) {
    let admission = Admission::new(1, false);
    let permit = enter(&admission, stream).unwrap();
    let caller = admission.caller(stream);
    caller.straight.store(true, Ordering::Relaxed);
    // Those in line look at the clock: by theirs it is never overdue.
    caller.left.store(FAR, Ordering::Relaxed);
    (admission, permit)
}

/// Has a thread stand in line while `first` runs. It enters and leaves as stream 63.
fn with_waiter(admission: &Admission, first: impl FnOnce()) {
    scope(|scope| {
        let waiter = scope.spawn(|| {
            let permit = enter(admission, 63).unwrap();
            admission.leave(63, permit);
        });
        while !admission.permits.has_waiters() && !waiter.is_finished() {
            std::thread::yield_now();
        }
        first();
        waiter.join().unwrap();
    });
}

#[test]
fn a_caller_that_comes_straight_back_goes_on_until_its_turn_ends() {
    let (admission, permit) = held_by(3);
    with_waiter(&admission, || {
        let began = permit.began;
        let kept = admission.keep(3, permit, began + MAX_TURN - 1);
        assert!(kept.is_none(), "handed on within its turn");
        let again = admission.take_kept(3, 0).unwrap();
        assert_eq!(again.began, began, "a turn does not begin anew");
        let kept = admission.keep(3, again, began + MAX_TURN);
        admission.give_back(kept.expect("kept after its turn"));
    });
    assert_eq!((admission.free_cores(), admission.take_kept(3, 0).is_some()), (1, false));
}

#[test]
fn a_permit_is_kept_for_nobody_else() {
    let (admission, permit) = held_by(3);
    with_waiter(&admission, || {
        let began = permit.began;
        assert!(admission.keep(3, permit, began).is_none());
        assert!(admission.take_kept(4, 0).is_none());
        admission.give_back(admission.take_kept(3, 0).unwrap());
    });
}

#[test]
fn nothing_is_kept_while_nobody_waits() {
    let (admission, permit) = held_by(3);
    let began = permit.began;
    admission.give_back(admission.keep(3, permit, began).expect("kept for nobody's sake"));
    assert_eq!(admission.free_cores(), 1);
}

#[test]
fn nothing_is_kept_for_a_caller_that_did_not_come_straight_back() {
    let (admission, permit) = held_by(3);
    let caller = admission.caller(3);
    caller.left.store(100 + 1, Ordering::Relaxed);
    admission.expect(3, 100 + STRAIGHT - 1);
    assert!(caller.straight.load(Ordering::Relaxed));
    admission.expect(3, 100 + STRAIGHT);
    assert!(!caller.straight.load(Ordering::Relaxed));
    with_waiter(&admission, || {
        let began = permit.began;
        admission.give_back(admission.keep(3, permit, began).expect("kept for a slow caller"));
    });
}

/// Whoever leaves hands on what others left behind, and no sooner than they may be expected.
#[test]
fn an_overdue_permit_is_handed_on_by_the_next_that_leaves() {
    let (admission, permit) = held_by(3);
    with_waiter(&admission, || {
        let began = permit.began;
        assert!(admission.keep(3, permit, began).is_none());
        admission.hand_on_overdue(FAR - 1 + OVERDUE - 1);
        assert!(admission.permits.has_waiters(), "handed on too early");
        admission.hand_on_overdue(FAR - 1 + OVERDUE);
    });
    assert_eq!((admission.free_cores(), admission.take_kept(3, 0).is_some()), (1, false));
}

/// Nobody leaves any more: those in line find the permit by themselves, one after the other.
#[test]
fn waiters_fetch_a_permit_whose_caller_never_comes_back() {
    let (admission, permit) = held_by(3);
    let barrier = Barrier::new(3);
    scope(|scope| {
        for stream in 10..13 {
            let (admission, barrier) = (&admission, &barrier);
            scope.spawn(move || {
                barrier.wait();
                let permit = enter(admission, stream).expect("waited for a caller that is gone");
                admission.leave(stream, permit);
            });
        }
        while !admission.permits.has_waiters() {
            std::thread::yield_now();
        }
        admission.leave(3, permit);
    });
    // What one of them kept for itself at the end is theirs, or overdue.
    admission.hand_on_overdue(u64::MAX - OVERDUE);
    assert_eq!(admission.free_cores(), 1);
}

#[test]
fn of_two_that_leave_one_stream_the_second_hands_its_permit_on() {
    let admission = Admission::new(2, false);
    let permits = [enter(&admission, 3).unwrap(), enter(&admission, 3).unwrap()];
    admission.caller(3).straight.store(true, Ordering::Relaxed);
    admission.caller(3).left.store(FAR, Ordering::Relaxed);
    with_waiter(&admission, || {
        let [first, second] = permits;
        let began = first.began;
        assert!(admission.keep(3, first, began).is_none());
        admission.give_back(admission.keep(3, second, began).expect("two permits in one place"));
        admission.give_back(admission.take_kept(3, 0).unwrap());
    });
    assert_eq!(admission.free_cores(), 2);
}

#[test]
fn a_wait_ends_at_its_deadline() {
    let (admission, permit) = held_by(3);
    let deadline = Instant::now() + Duration::from_millis(3);
    assert!(admission.enter_now(4).is_none());
    assert!(admission.enter(deadline).is_none());
    assert!(Instant::now() >= deadline);
    admission.give_back(permit);
    assert_eq!(admission.free_cores(), 1);
}

/// Permits that nobody has, and whether the spare one lies apart.
fn at_rest(admission: &Admission) -> (u64, bool) {
    (admission.permits.free_word(), admission.spare.load(Ordering::Relaxed))
}

#[test]
fn the_spare_permit_is_for_who_asks_for_it_and_lies_apart_again() {
    let admission = Admission::new(1, true);
    let first = admission.enter_now(1).unwrap();
    assert!(admission.enter_now(2).is_none(), "who did not ask for the spare permit got it");
    let second = admission.enter_spare().unwrap();
    assert!(admission.enter_spare().is_none(), "there is one");
    admission.leave(1, first);
    assert_eq!(at_rest(&admission), (0, true), "the first that comes back is set apart");
    admission.leave(2, second);
    assert_eq!(at_rest(&admission), (1, true));
}

#[test]
fn the_spare_permit_goes_to_who_stands_in_line() {
    let admission = Admission::new(1, true);
    let first = admission.enter_now(1).unwrap();
    let second = admission.enter_spare().unwrap();
    scope(|scope| {
        let waiter = scope.spawn(|| {
            let third = admission.enter(soon()).unwrap();
            admission.leave(3, third);
        });
        while !admission.has_waiters() {
            std::thread::yield_now();
        }
        admission.give_back(second);
        waiter.join().unwrap();
    });
    admission.give_back(first);
    assert_eq!(at_rest(&admission), (1, true));
}

#[test]
fn there_is_no_spare_permit_for_who_did_not_want_one() {
    let admission = Admission::new(1, false);
    let permit = admission.enter_now(1).unwrap();
    assert!(admission.enter_spare().is_none());
    admission.leave(1, permit);
    assert_eq!(at_rest(&admission), (1, false));
}

/// Helpers take the cores that are free, and would be one too many.
#[test]
fn a_spare_permit_in_the_pool_is_no_free_core() {
    let admission = Admission::new(1, true);
    let _both = (admission.enter_now(1).unwrap(), admission.enter_spare().unwrap());
    admission.permits.put(());
    assert_eq!(admission.free_cores(), 1);
    admission.permits.put(());
    assert_eq!(admission.free_cores(), 1);
}

#[test]
fn calls_are_long_that_last_longer_than_a_turn_again_and_again() {
    let admission = Admission::new(1, false);
    admission.note(1, u64::MAX);
    assert!(!admission.is_long(1), "one call does not tell");
    (0..2).for_each(|_| admission.note(1, 40));
    admission.note(1, u64::MAX);
    assert!(!admission.is_long(1), "nor does one now and then");
    (0..2).for_each(|_| admission.note(1, u64::MAX));
    assert!(admission.is_long(1));
    assert!(!admission.is_long(2), "another stream's calls are its own");
    (0..4).for_each(|_| admission.note(1, 40));
    assert!(!admission.is_long(1), "short again");
}

#[test]
fn what_a_call_and_a_worker_took_is_noted() {
    let admission = Admission::new(1, false);
    // Well after the start, on any machine.
    while admission.now() < 2 * LONG {
        std::thread::yield_now();
    }
    for _ in 0..4 {
        let permit = admission.enter_now(1).unwrap();
        admission.leave(1, Permit { entered: 0, ..permit });
    }
    assert!(admission.is_long(1));
    for _ in 0..4 {
        admission.run_for(2, || {
            let start = admission.now();
            while admission.now() < start + 2 * LONG {
                std::thread::yield_now();
            }
        });
    }
    assert!(admission.is_long(2));
    admission.leave(1, admission.enter_now(1).unwrap());
    assert_eq!(admission.caller(3).length.load(Ordering::Relaxed), 0);
}

/// Who sets the spare permit apart may not see yet that somebody has come to stand in line.
#[test]
fn who_stands_in_line_finds_a_spare_permit_that_was_set_apart_meanwhile() {
    let admission = Admission::new(1, true);
    let core = admission.enter_now(1).unwrap();
    let spare = admission.enter_spare().unwrap();
    scope(|scope| {
        let waiter = scope.spawn(|| admission.enter_worker().unwrap());
        while admission.waiters() != 1 {
            std::thread::yield_now();
        }
        drop_apart(&admission, spare);
        let found = waiter.join().unwrap();
        admission.give_back(found);
    });
    admission.give_back(core);
    assert_eq!(at_rest(&admission), (1, true));
}

/// What `put` does that saw nobody.
fn drop_apart(admission: &Admission, _: Permit) {
    assert!(!admission.spare.swap(true, Ordering::Release));
}
