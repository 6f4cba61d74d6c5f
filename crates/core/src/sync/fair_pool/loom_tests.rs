use loom::cell::UnsafeCell;
use loom::thread;

use super::*;

/// No lost wake-up, no double lease, and each sees what the last one did: loom reports a deadlock for the
/// first, and accesses at the same time for the others.
#[test]
fn loom_three_threads_share_one_slot() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let pool = Arc::new(FairPool::slots(1));
        let held = Arc::new(UnsafeCell::new(0));
        let work = |pool: Arc<FairPool<Slots>>, held: Arc<UnsafeCell<u32>>| {
            let slot = pool.take(None).unwrap();
            // SAFETY: one has the slot at a time; loom checks that.
            held.with_mut(|count| unsafe { *count += 1 });
            pool.put(slot);
        };
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (pool, held) = (Arc::clone(&pool), Arc::clone(&held));
                thread::spawn(move || work(pool, held))
            })
            .collect();
        work(Arc::clone(&pool), held);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(pool.free_word(), 1, "a slot was lost");
        assert!(!pool.has_waiters());
    });
}

/// A waiter that gives up at the same moment as it is served neither loses nor copies the token.
#[test]
fn loom_leaving_the_line_races_with_being_served() {
    loom::model(|| {
        let pool = Arc::new(FairPool::permits(1));
        pool.try_take().unwrap();
        let waiter = Arc::new(Waiter { granted: Mutex::new(None), changed: Condvar::new() });
        lock(&pool.queue).push_back(Arc::clone(&waiter));
        pool.word.fetch_or(WAITING, Ordering::Relaxed);
        let giver = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.put(()))
        };
        let left = pool.leave(&waiter);
        if !left {
            pool.await_grant(&waiter, 0, None, None).unwrap();
        }
        giver.join().unwrap();
        assert_eq!(pool.free_word(), u64::from(left), "the permit is free or held, never both");
        assert!(!pool.has_waiters());
    });
}

/// Whoever stands in line gets the next token, even if somebody else asks at that moment.
#[test]
fn loom_nobody_overtakes_a_waiter() {
    loom::model(|| {
        let pool = Arc::new(FairPool::permits(1));
        pool.try_take().unwrap();
        let waiter = Arc::new(Waiter { granted: Mutex::new(None), changed: Condvar::new() });
        lock(&pool.queue).push_back(Arc::clone(&waiter));
        pool.word.fetch_or(WAITING, Ordering::Relaxed);
        let giver = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.put(()))
        };
        assert!(pool.try_take().is_none(), "overtook the waiter");
        pool.await_grant(&waiter, 0, None, None).unwrap();
        giver.join().unwrap();
        pool.put(());
        assert_eq!(pool.free_word(), 1);
    });
}
