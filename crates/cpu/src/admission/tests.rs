use std::sync::Barrier;
use std::thread::scope;

use super::*;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

/// A time that no test lives to see.
const FAR: u64 = 1 << 60;

/// A pool of one permit in the hands of `stream`, whose caller has come straight back before.
fn held_by(stream: u32) -> (Admission, Permit) {
    let admission = Admission::new(1);
    let permit = admission.enter(stream, soon()).unwrap();
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
            let permit = admission.enter(63, soon()).unwrap();
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
        let again = admission.take_kept(3).unwrap();
        assert_eq!(again.began, began, "a turn does not begin anew");
        let kept = admission.keep(3, again, began + MAX_TURN);
        admission.give_back(kept.expect("kept after its turn"));
    });
    assert_eq!((admission.free(), admission.take_kept(3).is_some()), (1, false));
}

#[test]
fn a_permit_is_kept_for_nobody_else() {
    let (admission, permit) = held_by(3);
    with_waiter(&admission, || {
        let began = permit.began;
        assert!(admission.keep(3, permit, began).is_none());
        assert!(admission.take_kept(4).is_none());
        admission.give_back(admission.take_kept(3).unwrap());
    });
}

#[test]
fn nothing_is_kept_while_nobody_waits() {
    let (admission, permit) = held_by(3);
    let began = permit.began;
    admission.give_back(admission.keep(3, permit, began).expect("kept for nobody's sake"));
    assert_eq!(admission.free(), 1);
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
    assert_eq!((admission.free(), admission.take_kept(3).is_some()), (1, false));
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
                let permit =
                    admission.enter(stream, soon()).expect("waited for a caller that is gone");
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
    assert_eq!(admission.free(), 1);
}

#[test]
fn of_two_that_leave_one_stream_the_second_hands_its_permit_on() {
    let admission = Admission::new(2);
    let permits = [admission.enter(3, soon()).unwrap(), admission.enter(3, soon()).unwrap()];
    admission.caller(3).straight.store(true, Ordering::Relaxed);
    admission.caller(3).left.store(FAR, Ordering::Relaxed);
    with_waiter(&admission, || {
        let [first, second] = permits;
        let began = first.began;
        assert!(admission.keep(3, first, began).is_none());
        admission.give_back(admission.keep(3, second, began).expect("two permits in one place"));
        admission.give_back(admission.take_kept(3).unwrap());
    });
    assert_eq!(admission.free(), 2);
}

#[test]
fn a_wait_ends_at_its_deadline() {
    let (admission, permit) = held_by(3);
    let deadline = Instant::now() + Duration::from_millis(3);
    assert!(admission.enter(4, deadline).is_none());
    assert!(Instant::now() >= deadline);
    admission.give_back(permit);
    assert_eq!(admission.free(), 1);
}
