use super::*;

#[cfg(not(loom))]
#[test]
fn one_has_it_at_a_time() {
    let checkout = Checkout::new();
    assert!(checkout.take() && !checkout.take() && checkout.is_out());
    checkout.release();
    assert!(!checkout.is_out() && checkout.take());
}

/// One thread gives a piece back that it has written to, while two want it: one at a time gets it, and
/// sees what was written.
#[cfg(loom)]
#[test]
fn loom_a_checkout_is_handed_on_with_what_was_written() {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    struct Piece {
        checkout: Checkout,
        memory: UnsafeCell<u32>,
    }
    // SAFETY: the memory is touched by whoever has the checkout; loom checks that.
    unsafe impl Sync for Piece {}
    // SAFETY: as above.
    unsafe impl Send for Piece {}

    fn write(piece: &Piece) {
        // SAFETY: the caller has the checkout; loom reports it if that is not enough.
        piece.memory.with_mut(|value| unsafe { *value += 1 });
    }

    loom::model(|| {
        let piece = Arc::new(Piece { checkout: Checkout::new(), memory: UnsafeCell::new(0) });
        assert!(piece.checkout.take());
        let takers: Vec<_> = (0..2)
            .map(|_| {
                let piece = Arc::clone(&piece);
                thread::spawn(move || {
                    let taken = piece.checkout.take();
                    if taken {
                        write(&piece);
                        piece.checkout.release();
                    }
                    u32::from(taken)
                })
            })
            .collect();
        write(&piece);
        piece.checkout.release();
        let taken: u32 = takers.into_iter().map(|taker| taker.join().unwrap()).sum();
        assert!(piece.checkout.take());
        // SAFETY: nobody else has it.
        piece.memory.with(|value| assert_eq!(unsafe { *value }, taken + 1));
    });
}

/// Where there is one taker, its look is enough to see what was written.
#[cfg(loom)]
#[test]
fn loom_a_check_of_a_checkout_sees_what_was_written() {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    loom::model(|| {
        let shared = Arc::new((Checkout::new(), UnsafeCell::new(0)));
        assert!(shared.0.take());
        let holder = {
            let shared = Arc::clone(&shared);
            loom::thread::spawn(move || {
                // SAFETY: this thread has the checkout; loom checks that.
                shared.1.with_mut(|value| unsafe { *value = 7 });
                shared.0.release();
            })
        };
        if !shared.0.is_out() {
            // SAFETY: nobody has it, and only this thread takes it.
            shared.1.with_mut(|value| assert_eq!(unsafe { *value }, 7));
        }
        holder.join().unwrap();
    });
}
