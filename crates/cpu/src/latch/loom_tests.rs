use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::*;

/// The owner goes on when the last of two helpers has left, asleep or not, and sees what they did.
#[test]
fn loom_the_owner_leaves_after_the_last_helper() {
    loom::model(|| {
        let shared =
            Arc::new((Latch::new(), OwnerParker::new(), [UnsafeCell::new(0), UnsafeCell::new(0)]));
        let helpers: Vec<_> = (0..2)
            .map(|index| {
                shared.0.add();
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    // SAFETY: the owner looks after this helper has left.
                    shared.2[index].with_mut(|done| unsafe { *done = 1 });
                    shared.0.leave(&shared.1);
                })
            })
            .collect();
        shared.0.wait(&shared.1);
        for done in &shared.2 {
            // SAFETY: every helper has left.
            assert_eq!(done.with(|done| unsafe { *done }), 1);
        }
        for helper in helpers {
            helper.join().unwrap();
        }
    });
}

/// A late notification of one piece of work does not end the wait for the next.
#[test]
fn loom_a_bed_serves_one_owner_after_another() {
    loom::model(|| {
        let parker = Arc::new(OwnerParker::new());
        for _ in 0..2 {
            let latch = Arc::new(Latch::new());
            latch.add();
            let helper = {
                let (latch, parker) = (Arc::clone(&latch), Arc::clone(&parker));
                thread::spawn(move || latch.leave(&parker))
            };
            latch.wait(&parker);
            assert_eq!(latch.count(), 0);
            helper.join().unwrap();
        }
    });
}
