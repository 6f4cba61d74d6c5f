//! A flag that says who has a thing: at most one at a time, taken by one thread and given back by any.

use super::shim::{AtomicBool, Ordering};

/// How the flag is given back. A build with `--cfg planted_race` gets this wrong on purpose, so that CI
/// can see loom notice it.
const GIVE: Ordering = if cfg!(planted_race) { Ordering::Relaxed } else { Ordering::Release };

/// Whether a thing is lent.
///
/// # Thread safety
///
/// Any thread may take and give back. What was done to the thing before it was given back is visible to
/// whoever takes it next.
pub struct Loan {
    taken: AtomicBool,
}

impl Default for Loan {
    fn default() -> Self {
        Self::new()
    }
}

impl Loan {
    /// Of a thing that nobody has.
    pub fn new() -> Self {
        Self { taken: AtomicBool::new(false) }
    }

    /// Takes the thing; `false` if somebody has it.
    pub fn take(&self) -> bool {
        // Pairs with `give_back`.
        let (have, take) = (Ordering::Relaxed, Ordering::Acquire);
        self.taken.compare_exchange(false, true, take, have).is_ok()
    }

    /// Gives the thing back. Only for whoever took it, once.
    pub fn give_back(&self) {
        // Pairs with `take` and `is_taken`.
        self.taken.store(false, GIVE);
    }

    /// Whether somebody has it. What whoever gave it back did is visible if not.
    pub fn is_taken(&self) -> bool {
        // Pairs with `give_back`.
        self.taken.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(not(loom))]
    #[test]
    fn one_has_it_at_a_time() {
        let loan = Loan::new();
        assert!(loan.take() && !loan.take() && loan.is_taken());
        loan.give_back();
        assert!(!loan.is_taken() && loan.take());
    }

    /// One thread gives a piece back that it has written to, while two want it: one at a time gets it, and
    /// sees what was written.
    #[cfg(loom)]
    #[test]
    fn loom_a_loan_is_handed_on_with_what_was_written() {
        use loom::cell::UnsafeCell;
        use loom::sync::Arc;
        use loom::thread;

        struct Piece {
            loan: Loan,
            memory: UnsafeCell<u32>,
        }
        // SAFETY: the memory is touched by whoever has the loan; loom checks that.
        unsafe impl Sync for Piece {}
        // SAFETY: as above.
        unsafe impl Send for Piece {}

        fn write(piece: &Piece) {
            // SAFETY: the caller has the loan; loom reports it if that is not enough.
            piece.memory.with_mut(|value| unsafe { *value += 1 });
        }

        loom::model(|| {
            let piece = Arc::new(Piece { loan: Loan::new(), memory: UnsafeCell::new(0) });
            assert!(piece.loan.take());
            let takers: Vec<_> = (0..2)
                .map(|_| {
                    let piece = Arc::clone(&piece);
                    thread::spawn(move || {
                        let taken = piece.loan.take();
                        if taken {
                            write(&piece);
                            piece.loan.give_back();
                        }
                        u32::from(taken)
                    })
                })
                .collect();
            write(&piece);
            piece.loan.give_back();
            let taken: u32 = takers.into_iter().map(|taker| taker.join().unwrap()).sum();
            assert!(piece.loan.take());
            // SAFETY: nobody else has it.
            piece.memory.with(|value| assert_eq!(unsafe { *value }, taken + 1));
        });
    }

    /// Where there is one taker, its look is enough to see what was written.
    #[cfg(loom)]
    #[test]
    fn loom_a_look_at_a_loan_sees_what_was_written() {
        use loom::cell::UnsafeCell;
        use loom::sync::Arc;

        loom::model(|| {
            let shared = Arc::new((Loan::new(), UnsafeCell::new(0)));
            assert!(shared.0.take());
            let holder = {
                let shared = Arc::clone(&shared);
                loom::thread::spawn(move || {
                    // SAFETY: this thread has the loan; loom checks that.
                    shared.1.with_mut(|value| unsafe { *value = 7 });
                    shared.0.give_back();
                })
            };
            if !shared.0.is_taken() {
                // SAFETY: nobody has it, and only this thread takes it.
                shared.1.with_mut(|value| assert_eq!(unsafe { *value }, 7));
            }
            holder.join().unwrap();
        });
    }
}
