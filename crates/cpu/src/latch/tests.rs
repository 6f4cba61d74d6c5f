use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Were the thread parked, the token would be used up. The helper leaves a little later in every round, so that the
/// owner sleeps in some of them, however busy the machine is.
#[test]
fn the_owners_own_park_token_stays() {
    const ROUNDS: usize = 200;
    let (latch, parker) = (Latch::new(), OwnerParker::new());
    let (round, tokens_seen) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for current in 1..=ROUNDS {
                while round.load(Ordering::Acquire) != current {
                    std::thread::yield_now();
                }
                (0..current).for_each(|_| std::thread::yield_now());
                latch.leave(&parker);
            }
        });
        scope.spawn(|| {
            for current in 1..=ROUNDS {
                std::thread::current().unpark();
                latch.add();
                round.store(current, Ordering::Release);
                latch.wait(&parker);
                // Without the token this would never return.
                std::thread::park();
                tokens_seen.fetch_add(1, Ordering::Relaxed);
            }
        });
    });
    assert_eq!(tokens_seen.into_inner(), ROUNDS);
}
