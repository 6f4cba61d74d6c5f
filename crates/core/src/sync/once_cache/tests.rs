//! What is built, kept and waited for.

use std::sync::Barrier;
use std::sync::mpsc::channel;

use super::*;

/// Not a time that a test may depend on.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn each_key_is_built_once_by_many_threads() {
    let cache = OnceCache::new(1000, LONG);
    let barrier = Barrier::new(16);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                barrier.wait();
                for key in 0..50usize {
                    let value = cache.get_or_build(key, |key| Ok(key * 2)).unwrap();
                    assert_eq!(*value, key * 2);
                }
            });
        }
    });
    assert_eq!((cache.builds(), cache.len()), (50, 50));
}

#[test]
fn an_error_can_be_tried_again() {
    let cache = OnceCache::<&str, u32>::new(4, LONG);
    let failed = Error::Compile { key: "k".into(), message: "no".into() };
    assert_eq!(cache.get_or_build("k", |_| Err(failed.clone())).err(), Some(failed));
    assert_eq!(*cache.get_or_build("k", |_| Ok(7)).unwrap(), 7);
    assert_eq!(*cache.get_or_build("k", |_| panic!("built already")).unwrap(), 7);
}

#[test]
fn a_panic_becomes_an_error_and_can_be_tried_again() {
    let cache = OnceCache::<&str, u32>::new(4, LONG);
    let error = cache.get_or_build("k", |_| panic!("bad kernel")).err().unwrap();
    assert!(error.to_string().contains("bad kernel"), "{error}");
    assert_eq!(*cache.get_or_build("k", |_| Ok(7)).unwrap(), 7);
}

#[test]
fn a_build_that_asks_for_itself_is_an_error_and_other_keys_are_not() {
    let cache = OnceCache::<u32, u32>::new(4, LONG);
    let result = cache.get_or_build(1, |_| {
        let other = *cache.get_or_build(2, |_| Ok(20))?;
        cache.get_or_build(1, |_| Ok(0)).map(|own| *own + other)
    });
    assert!(result.err().unwrap().to_string().contains("itself"));
    assert_eq!(*cache.get_or_build(2, |_| Ok(0)).unwrap(), 20);
}

#[test]
fn a_full_cache_still_answers() {
    let cache = OnceCache::<u32, u32>::new(2, LONG);
    for key in 0..5 {
        assert_eq!(*cache.get_or_build(key, |&key| Ok(key + 1)).unwrap(), key + 1);
    }
    assert_eq!(cache.len(), 2);
    assert!(matches!(cache.get_or_build(9, |_| Ok(0)), Ok(Cached::Owned(_))));
    assert!(matches!(cache.get_or_build(0, |_| Ok(0)), Ok(Cached::Shared(1))));
}

#[test]
fn a_key_beyond_the_bound_is_not_built_at_every_call() {
    let cache = OnceCache::<u32, u32>::new(2, LONG);
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for key in 0..10 {
                    barrier.wait();
                    assert_eq!(*cache.get_or_build(key, |&key| Ok(key)).unwrap(), key);
                }
            });
        }
    });
    assert_eq!((cache.builds(), cache.len()), (10, 2));
    for _ in 0..3 {
        for key in 100..100 + 2 * SPARES as u32 {
            cache.get_or_build(key, |&key| Ok(key)).unwrap();
            cache.get_or_build(9, |_| panic!("used all the time")).unwrap();
        }
    }
    assert_eq!((cache.len(), lock(&cache.spares).len()), (2, SPARES));
}

#[test]
fn keys_that_fail_leave_nothing_behind() {
    let cache = OnceCache::<u32, u32>::new(2, LONG);
    for key in 0..1000 {
        assert!(cache.get_or_build(key, |key| Err(failure(key, "no"))).is_err());
    }
    assert!(cache.buckets.iter().all(|bucket| lock(&bucket.builds).is_empty()));
    assert!(cache.is_empty());
    assert!(matches!(cache.get_or_build(0, |_| Ok(7)), Ok(Cached::Shared(7))));
}

#[test]
fn invariant_08_others_wait_for_that_key_only() {
    let cache = OnceCache::<u32, u32>::new(4, LONG);
    let (begun, has_begun) = channel();
    let (finish, may_finish) = channel();
    std::thread::scope(|scope| {
        let cache = &cache;
        let slow = scope.spawn(move || {
            let build = |_: &u32| {
                begun.send(()).unwrap();
                may_finish.recv().unwrap();
                Ok(1)
            };
            *cache.get_or_build(1, build).unwrap()
        });
        has_begun.recv().unwrap();
        // More keys than buckets, so that one shares the bucket of the slow one.
        for key in 2..2 + 3 * BUCKETS as u32 {
            assert_eq!(*cache.get_or_build(key, |&key| Ok(key)).unwrap(), key);
        }
        let waiter = scope.spawn(|| *cache.get_or_build(1, |_| panic!("twice")).unwrap());
        finish.send(()).unwrap();
        assert_eq!((slow.join().unwrap(), waiter.join().unwrap()), (1, 1));
    });
}

#[test]
fn invariant_05_a_wait_for_a_build_ends_at_its_deadline_and_names_the_key() {
    let cache = OnceCache::<&str, u32>::new(4, Duration::from_millis(5));
    let (begun, has_begun) = channel();
    let (finish, may_finish) = channel();
    std::thread::scope(|scope| {
        let cache = &cache;
        scope.spawn(move || {
            let build = |_: &&str| {
                begun.send(()).unwrap();
                may_finish.recv().unwrap();
                Ok(1)
            };
            cache.get_or_build("gelu", build).unwrap();
        });
        has_begun.recv().unwrap();
        let error = cache.get_or_build("gelu", |_| Ok(2)).err().unwrap();
        finish.send(()).unwrap();
        let text = error.to_string();
        assert!(text.contains("gelu") && text.contains("5ms"), "{text}");
        assert!(error.is_retryable());
    });
    assert_eq!(*cache.get_or_build("gelu", |_| Ok(2)).unwrap(), 1);
}

#[test]
fn two_builds_that_need_each_other_do_not_wait_for_ever() {
    let cache = OnceCache::<u32, u32>::new(4, Duration::from_millis(20));
    let both = Barrier::new(2);
    std::thread::scope(|scope| {
        for (own, other) in [(1, 2), (2, 1)] {
            let (cache, both) = (&cache, &both);
            scope.spawn(move || {
                let result = cache.get_or_build(own, |_| {
                    both.wait();
                    let other = cache.get_or_build(other, |_| panic!("it is being built"));
                    // Nobody is out of its build before both have looked.
                    both.wait();
                    other.map(|other| *other)
                });
                assert!(matches!(result.err(), Some(Error::Compile { .. })));
            });
        }
    });
    assert_eq!(*cache.get_or_build(1, |_| Ok(1)).unwrap(), 1);
}

#[test]
fn get_finds_what_is_there_and_waits_for_nothing() {
    let cache = OnceCache::<u32, u32>::new(1, LONG);
    assert!(cache.get(&1).is_none());
    let built = cache.get_or_build(1, |_| {
        assert!(cache.get(&1).is_none(), "it is being built");
        Ok(10)
    });
    assert_eq!(*built.unwrap(), 10);
    // The first is kept, the second is one of the spares.
    assert_eq!(*cache.get_or_build(2, |_| Ok(20)).unwrap(), 20);
    assert_eq!([1, 2].map(|key| *cache.get(&key).unwrap()), [10, 20]);
    assert!(matches!(cache.get(&2), Some(Cached::Owned(_))));
    assert_eq!(cache.builds(), 2);
}
