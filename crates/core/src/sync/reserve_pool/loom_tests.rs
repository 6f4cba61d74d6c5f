use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::*;

/// What its user writes to without any lock.
struct Memory(UnsafeCell<u32>);

// SAFETY: touched by who has the value; loom checks that.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

fn memory() -> Box<Memory> {
    Box::new(Memory(UnsafeCell::new(0)))
}

fn write(memory: &Memory) {
    // SAFETY: the caller has the value alone; loom reports it if that is not so.
    memory.0.with_mut(|count| unsafe { *count += 1 });
}

/// Reserves, with a value of its own if there are too few, uses a value, and puts it back.
fn run(pool: &ReservePool<Memory>) {
    if !pool.try_reserve() {
        assert!(pool.add_reserved(memory()).is_none());
    }
    let taken = pool.take().expect("who has a reservation finds a value");
    write(taken.value());
    pool.put(taken);
    pool.cancel();
}

/// Two users at a time, and one who removes what nobody needs.
#[test]
fn loom_who_has_a_reservation_finds_a_value() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let pool = Arc::new(ReservePool::new(2));
        let threads = [(); 2].map(|()| {
            let pool = Arc::clone(&pool);
            thread::spawn(move || run(&pool))
        });
        if let Some(removed) = pool.try_remove() {
            write(&removed);
        }
        for thread in threads {
            thread.join().unwrap();
        }
        let (values, free) = pool.values();
        assert_eq!(values, free, "all were put back");
    });
}

/// Of two who run one after the other, the second sees what the first did.
#[test]
fn loom_a_value_is_handed_on_with_what_was_written() {
    loom::model(|| {
        let pool = Arc::new(ReservePool::new(1));
        let second = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                // One user at a time: the other may not have come or left yet.
                if pool.try_reserve() {
                    if let Some(taken) = pool.take() {
                        write(taken.value());
                        pool.put(taken);
                    }
                    pool.cancel();
                }
            })
        };
        assert!(pool.add_reserved(memory()).is_none());
        // The other may have it.
        if let Some(taken) = pool.take() {
            write(taken.value());
            pool.put(taken);
        }
        pool.cancel();
        second.join().unwrap();
    });
}

/// Who reserved earlier takes a value that is added later, as it was made.
#[test]
fn loom_a_value_that_is_added_later_is_found_as_it_was_made() {
    loom::model(|| {
        let pool = Arc::new(ReservePool::new(1));
        assert!(pool.add_reserved(memory()).is_none());
        let kept = pool.take().expect("reserved");
        // One user at a time: one value is enough for two reservations.
        assert!(pool.try_reserve());
        let early = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                // The one value is in use; the other may be there already.
                if let Some(taken) = pool.take() {
                    write(taken.value());
                    pool.put(taken);
                }
                pool.cancel();
            })
        };
        let later = memory();
        write(&later);
        assert!(pool.add_reserved(later).is_none());
        early.join().unwrap();
        pool.put(kept);
    });
}

/// A value that counts is in its place for whoever counts on it.
#[test]
fn loom_a_reserved_value_is_in_its_place() {
    loom::model(|| {
        let pool = Arc::new(ReservePool::new(1));
        let other = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                if pool.try_reserve() {
                    let taken = pool.take().expect("it counts, so it is there");
                    write(taken.value());
                    pool.put(taken);
                    pool.cancel();
                }
            })
        };
        // This one has a reservation, and does not use it.
        assert!(pool.add_reserved(memory()).is_none());
        other.join().unwrap();
    });
}

/// The same for one that was put back: who no longer needs it leaves it to who comes.
#[test]
fn loom_a_value_whose_user_has_left_is_in_its_place() {
    loom::model(|| {
        let pool = Arc::new(ReservePool::new(2));
        assert!(pool.add_reserved(memory()).is_none());
        let taken = pool.take().expect("reserved");
        let other = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                // There is one value: with two reservations it is too few.
                if pool.try_reserve() {
                    let taken = pool.take().expect("the other has left");
                    write(taken.value());
                    pool.put(taken);
                    pool.cancel();
                }
            })
        };
        write(taken.value());
        pool.put(taken);
        pool.cancel();
        other.join().unwrap();
    });
}

/// A place is filled again only when its value is out.
#[test]
fn loom_a_place_is_filled_again_by_one() {
    loom::model(|| {
        let pool = Arc::new(ReservePool::new(2));
        for _ in 0..2 {
            assert!(pool.add_reserved(memory()).is_none());
        }
        pool.cancel();
        let other = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                if let Err(value) = pool.add_taken(memory()) {
                    write(&value);
                }
            })
        };
        if let Some(removed) = pool.try_remove() {
            write(&removed);
        }
        other.join().unwrap();
    });
}
