use super::*;

#[test]
fn many_reservations_need_no_more_values_than_users() {
    let pool = ReservePool::new(2);
    assert!(!pool.try_reserve(), "it is empty");
    for value in 0..2 {
        assert!(pool.add_reserved(Box::new(value)).is_none());
    }
    for _ in 0..29 {
        assert!(pool.try_reserve());
    }
    let (one, two) = (pool.take().unwrap(), pool.take().unwrap());
    assert_ne!(one.value(), two.value());
    assert!(pool.take().is_none());
    pool.put(one);
    pool.put(two);
    (0..31).for_each(|_| pool.cancel());
    assert_eq!(pool.values(), (2, 2));
}

#[test]
fn a_lone_user_needs_one_value_and_gets_the_same_each_time() {
    let pool = ReservePool::new(4);
    assert!(pool.add_reserved(Box::new(7)).is_none());
    for _ in 0..10 {
        let taken = pool.take().unwrap();
        assert_eq!(*taken.value(), 7);
        pool.put(taken);
        pool.cancel();
        assert!(pool.try_reserve());
    }
    assert!(!pool.try_reserve(), "a second user at the same time needs a second one");
}

#[test]
fn what_is_reserved_is_not_removed() {
    let pool = ReservePool::new(2);
    for value in 0..2 {
        assert!(pool.add_reserved(Box::new(value)).is_none());
    }
    assert!(pool.try_remove().is_none());
    pool.cancel();
    assert!(pool.try_remove().is_some());
    assert!(pool.try_remove().is_none());
    let taken = pool.take().expect("one is left for the reservation");
    pool.put(taken);
    pool.cancel();
    assert!(pool.try_remove().is_some());
    assert_eq!(pool.values(), (0, 0));
}

#[test]
fn one_who_finds_none_adds_one_and_it_is_one_too_many_afterwards() {
    let pool = ReservePool::new(1);
    assert!(pool.add_reserved(Box::new(1)).is_none());
    let kept = pool.take().unwrap();
    assert!(pool.try_reserve());
    assert!(pool.take().is_none());
    let other = pool.add_taken(Box::new(2)).unwrap();
    assert_eq!((*other.value(), pool.values()), (2, (2, 0)));
    assert!(pool.has_too_many() && pool.try_remove().is_none(), "all are in use");
    pool.put(other);
    pool.cancel();
    assert_eq!(pool.try_remove().as_deref(), Some(&2));
    assert!(!pool.has_too_many());
    pool.put(kept);
}

#[test]
fn a_full_pool_gives_the_value_back() {
    let pool = ReservePool::new(MAX_VALUES);
    for value in 0..MAX_VALUES {
        assert!(pool.add_reserved(Box::new(value)).is_none());
    }
    assert_eq!(pool.add_reserved(Box::new(99)).as_deref(), Some(&99));
    assert!(pool.try_reserve());
}
