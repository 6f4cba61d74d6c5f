use super::*;

#[test]
fn slots_are_handed_out_once_each() {
    let pool = FairPool::slots(3);
    let mut slots: Vec<_> = (0..3).map(|_| pool.try_take().unwrap()).collect();
    slots.sort_unstable();
    assert_eq!(slots, [0, 1, 2]);
    assert_eq!(pool.try_take(), None);
    pool.put(1);
    assert_eq!(pool.try_take(), Some(1));
}

#[test]
fn a_wait_ends_at_its_deadline_and_leaves_the_line() {
    let pool = FairPool::permits(1);
    pool.try_take().unwrap();
    let deadline = Instant::now() + Duration::from_millis(5);
    assert!(pool.take(Some(deadline)).is_none());
    assert!(Instant::now() >= deadline);
    assert!(!pool.has_waiters());
    pool.put(());
    assert!(pool.try_take().is_some());
}

#[test]
fn waiters_are_served_in_order_of_arrival() {
    let pool = FairPool::permits(1);
    pool.try_take().unwrap();
    let order = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for index in 0..8 {
            let (pool, order) = (&pool, &order);
            scope.spawn(move || {
                pool.take(None).unwrap();
                order.lock().unwrap().push(index);
                pool.put(());
            });
            // The next thread starts once this one stands in line.
            while lock(&pool.queue).len() != index + 1 {
                std::thread::yield_now();
            }
        }
        pool.put(());
    });
    assert_eq!(order.into_inner().unwrap(), (0..8).collect::<Vec<_>>());
}
