use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// Were the thread parked, the token would be used up.
#[test]
fn the_owners_own_park_token_stays() {
    let (latch, parker) = (Latch::new(), OwnerParker::new());
    let token_seen = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let owner = scope.spawn(|| {
            std::thread::current().unpark();
            latch.add();
            let helper = scope.spawn(|| {
                std::thread::yield_now();
                latch.leave(&parker);
            });
            latch.wait(&parker);
            // Without the token this would never return.
            std::thread::park();
            token_seen.store(true, Ordering::Relaxed);
            helper.join().unwrap();
        });
        owner.join().unwrap();
    });
    assert!(token_seen.into_inner());
}
