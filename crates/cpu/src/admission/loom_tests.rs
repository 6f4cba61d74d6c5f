use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::*;

/// A permit that is kept goes to its caller or to somebody else, never to both and never to neither; who has it
/// sees what the last one did.
#[test]
fn loom_a_kept_permit_is_taken_once() {
    loom::model(|| {
        let admission = Arc::new(Admission::new(1, false));
        let used = Arc::new(UnsafeCell::new(0));
        let permit = admission.enter_worker().unwrap();
        let thief = {
            let (admission, used) = (Arc::clone(&admission), Arc::clone(&used));
            thread::spawn(move || {
                admission.hand_on_overdue(OVERDUE);
                if admission.permits.try_take().is_some() {
                    // SAFETY: there is one permit; loom checks that.
                    used.with_mut(|used| unsafe { *used += 1 });
                    admission.permits.put(());
                }
            })
        };
        // SAFETY: as above.
        used.with_mut(|used| unsafe { *used += 1 });
        assert!(admission.set_aside(0, permit).is_none());
        if let Some(permit) = admission.take_kept(0, 0) {
            // SAFETY: as above.
            used.with_mut(|used| unsafe { *used += 1 });
            admission.give_back(permit);
        }
        thief.join().unwrap();
        assert_eq!(admission.free_cores(), 1, "a permit was lost or made");
    });
}

/// Three share a permit and the spare one: at most two of them have one at a time, who has one sees what those before it did,
/// everybody has a turn, and both permits are in their places at the end.
#[test]
fn loom_the_spare_permit_is_neither_lost_nor_doubled() {
    use loom::sync::atomic::AtomicUsize;

    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let shared = Arc::new((Admission::new(1, true), AtomicUsize::new(0)));
        let callers: Vec<_> = (0..2)
            .map(|stream| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || call(&shared, stream))
            })
            .collect();
        call(&shared, 2);
        for caller in callers {
            caller.join().unwrap();
        }
        let (admission, _) = &*shared;
        let spare = usize::from(admission.spare.load(Ordering::Relaxed));
        assert_eq!(admission.permits.free_word() as usize + spare, 2, "lost or made");
    });

    fn call((admission, inside): &(Admission, AtomicUsize), stream: u32) {
        let permit = admission
            .enter_now(stream)
            .or_else(|| admission.enter_spare())
            .or_else(|| admission.enter_worker())
            .unwrap();
        assert!(inside.fetch_add(1, Ordering::Relaxed) < 2, "more than there are permits");
        inside.fetch_sub(1, Ordering::Relaxed);
        admission.give_back(permit);
    }
}

/// Who gets the spare permit sees what the one did who gave it back.
#[test]
fn loom_the_spare_permit_shows_what_was_done_with_it() {
    loom::model(|| {
        let shared = Arc::new((Admission::new(1, true), UnsafeCell::new(0)));
        let first = shared.0.enter_now(0).unwrap();
        let spare = shared.0.enter_spare().unwrap();
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (admission, used) = &*shared;
                // SAFETY: of the two permits the first is in use until the end; loom checks that.
                used.with_mut(|used| unsafe { *used += 1 });
                admission.give_back(spare);
            })
        };
        let (admission, used) = &*shared;
        while let None = admission.enter_spare().map(|permit| {
            // SAFETY: as above.
            used.with_mut(|used| unsafe { *used += 1 });
            admission.give_back(permit);
        }) {
            thread::yield_now();
        }
        other.join().unwrap();
        admission.give_back(first);
        assert_eq!(admission.free_cores(), 1);
    });
}
