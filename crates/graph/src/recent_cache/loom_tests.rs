//! Builds, waits and evictions in every interleaving.

use loom::thread;

use super::*;

const LONG: Duration = Duration::from_secs(60);

fn shared(capacity: usize) -> Arc<RecentCache<u32, u32>> {
    Arc::new(RecentCache::new(capacity, LONG))
}

#[test]
fn loom_two_threads_build_one_key_once() {
    loom::model(|| {
        let cache = shared(2);
        let other = {
            let cache = Arc::clone(&cache);
            thread::spawn(move || *cache.get_or_build(1, |_| Ok(10)).unwrap())
        };
        assert_eq!(*cache.get_or_build(1, |_| Ok(10)).unwrap(), 10);
        assert_eq!(other.join().unwrap(), 10);
        assert_eq!(cache.builds(), 1);
    });
}

/// Two keys in a cache for one: both get their values, and one of them stays.
#[test]
fn loom_an_evicted_value_is_still_who_asked_for_it() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let cache = shared(1);
        let other = {
            let cache = Arc::clone(&cache);
            thread::spawn(move || *cache.get_or_build(2, |_| Ok(20)).unwrap())
        };
        assert_eq!(*cache.get_or_build(1, |_| Ok(10)).unwrap(), 10);
        assert_eq!(other.join().unwrap(), 20);
        assert_eq!(cache.values().len(), 1);
    });
}

/// A build fails, by error or by panic: its waiters get an error or build themselves; nobody waits for ever.
#[test]
fn loom_a_failed_build_releases_its_waiters() {
    for panics in [false, true] {
        loom::model(move || {
            let cache = shared(2);
            let tries = Arc::new(loom::sync::atomic::AtomicUsize::new(0));
            let attempt = move |cache: &RecentCache<u32, u32>,
                                tries: &loom::sync::atomic::AtomicUsize| {
                cache.get_or_build(1, |_| {
                    if tries.fetch_add(1, Ordering::Relaxed) > 0 {
                        return Ok(10);
                    }
                    assert!(!panics, "planted");
                    Err(Error::Compile { key: "1".into(), message: "planted".into() })
                })
            };
            let other = {
                let (cache, tries) = (Arc::clone(&cache), Arc::clone(&tries));
                thread::spawn(move || attempt(&cache, &tries).map(|value| *value))
            };
            let own = attempt(&cache, &tries).map(|value| *value);
            let other = other.join().unwrap();
            assert!(own.is_err() || other.is_err(), "the first build failed");
            assert_eq!(*attempt(&cache, &tries).unwrap(), 10);
        });
    }
}

/// A value is taken out while another is added: the one that was added stays.
#[test]
fn loom_taking_out_a_value_loses_no_other() {
    loom::model(|| {
        let cache = shared(3);
        let gone = cache.get_or_build(1, |_| Ok(10)).unwrap();
        let other = {
            let cache = Arc::clone(&cache);
            thread::spawn(move || *cache.get_or_build(2, |_| Ok(20)).unwrap())
        };
        cache.remove(&gone);
        assert_eq!(other.join().unwrap(), 20);
        assert!(cache.find(&1).is_none());
        assert_eq!(cache.find(&2).as_deref(), Some(&20));
    });
}
