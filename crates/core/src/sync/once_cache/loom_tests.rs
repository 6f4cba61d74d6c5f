//! Builds and waits in every interleaving.

use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize as Counter;
use loom::thread;

use super::*;

const LONG: Duration = Duration::from_secs(60);

#[test]
fn loom_two_threads_build_one_key_once() {
    loom::model(|| {
        let cache = Arc::new(OnceCache::<u32, u32>::new(4, LONG));
        let other = {
            let cache = Arc::clone(&cache);
            thread::spawn(move || *cache.get_or_build(1, |_| Ok(10)).unwrap())
        };
        assert_eq!(*cache.get_or_build(1, |_| Ok(10)).unwrap(), 10);
        assert_eq!(other.join().unwrap(), 10);
        assert_eq!(cache.builds(), 1);
    });
}

/// Whoever finds a value without the lock sees what its builder wrote; so with two nodes, where the older
/// one is found behind the newer.
#[test]
fn loom_a_value_is_found_as_it_was_built() {
    use loom::cell::UnsafeCell;
    struct Value(UnsafeCell<u32>);
    // SAFETY: written before it is published, and only read afterwards; loom checks that.
    unsafe impl Sync for Value {}
    // SAFETY: as above.
    unsafe impl Send for Value {}

    fn build(key: &u32) -> Result<Value> {
        let value = Value(UnsafeCell::new(0));
        // SAFETY: nobody else has it yet.
        value.0.with_mut(|value| unsafe { *value = key + 10 });
        Ok(value)
    }

    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let cache = Arc::new(OnceCache::<u32, Value>::new(4, LONG));
        let other = {
            let cache = Arc::clone(&cache);
            thread::spawn(move || drop(cache.get_or_build(2, build).unwrap()))
        };
        let reader = {
            let cache = Arc::clone(&cache);
            thread::spawn(move || {
                for key in [1, 2] {
                    if let Some(value) = cache.find(&cache.buckets[0], &key) {
                        // SAFETY: it is published; loom reports it if that is not enough.
                        value.0.with(|value| assert_eq!(unsafe { *value }, key + 10));
                    }
                }
            })
        };
        drop(cache.get_or_build(1, build).unwrap());
        other.join().unwrap();
        reader.join().unwrap();
    });
}

/// One build fails (by error or by panic): its waiters are released with an error, or try
/// themselves; nobody hangs, and afterwards the key can be built.
fn failing_build(panics: bool) {
    loom::model(move || {
        let cache = Arc::new(OnceCache::<u32, u32>::new(4, LONG));
        let tries = Arc::new(Counter::new(0));
        let build = move |tries: &Counter| {
            if tries.fetch_add(1, Ordering::Relaxed) > 0 {
                return Ok(10);
            }
            assert!(!panics, "planted");
            Err(Error::Compile { key: "1".into(), message: "planted".into() })
        };
        let other = {
            let (cache, tries) = (Arc::clone(&cache), Arc::clone(&tries));
            thread::spawn(move || cache.get_or_build(1, |_| build(&tries)).map(|value| *value))
        };
        let mine = cache.get_or_build(1, |_| build(&tries)).map(|value| *value);
        let theirs = other.join().unwrap();
        assert!(mine.is_err() || theirs.is_err(), "the first build fails");
        assert!([mine, theirs].into_iter().flatten().all(|value| value == 10));
        assert_eq!(*cache.get_or_build(1, |_| build(&tries)).unwrap(), 10);
    });
}

#[test]
fn loom_an_error_releases_the_waiters() {
    failing_build(false);
}

#[test]
fn loom_a_panic_releases_the_waiters() {
    // The panic is caught; its message would only clutter the output of thousands of runs.
    std::panic::set_hook(Box::new(|_| {}));
    failing_build(true);
    let _ = std::panic::take_hook();
}
