use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::*;

/// A permit that is kept goes to its caller or to somebody else, never to both and never to neither; who has it
/// sees what the last one did.
#[test]
fn loom_a_kept_permit_is_taken_once() {
    loom::model(|| {
        let admission = Arc::new(Admission::new(1));
        let used = Arc::new(UnsafeCell::new(0));
        let permit = admission.take(None, 0).unwrap();
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
        if let Some(permit) = admission.take_kept(0) {
            // SAFETY: as above.
            used.with_mut(|used| unsafe { *used += 1 });
            admission.give_back(permit);
        }
        thief.join().unwrap();
        assert_eq!(admission.free(), 1, "a permit was lost or made");
    });
}
