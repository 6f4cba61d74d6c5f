//! A cache in which each value is built once, by one thread, and then read without a lock.
//!
//! Buckets are linked lists that only grow at their head, so a reader walks them with plain loads. A
//! node's value is written once, before its `ready` flag. Whoever needs a value that is being built
//! waits for that key only. A build that fails or panics releases its waiters with the error, and the
//! next call tries again.

use std::hash::{BuildHasher, Hash, RandomState};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::thread::ThreadId;

use super::shim::{AtomicBool, AtomicPtr, AtomicUsize, Condvar, Mutex, Ordering, lock, wait_until};
use crate::{Error, Result};

#[cfg(loom)]
const BUCKETS: usize = 1;
#[cfg(not(loom))]
const BUCKETS: usize = 256;

/// A compile-once cache. See the module's documentation.
///
/// # Bound
///
/// At most `capacity` values are kept. Beyond that a value is built for the caller alone.
pub struct OnceCache<K, V> {
    buckets: Box<[Bucket<K, V>]>,
    entries: AtomicUsize,
    builds: AtomicUsize,
    capacity: usize,
    hasher: RandomState,
}

struct Bucket<K, V> {
    head: AtomicPtr<Node<K, V>>,
    insert: Mutex<()>,
}

struct Node<K, V> {
    key: K,
    next: *const Node<K, V>,
    ready: AtomicBool,
    value: std::cell::UnsafeCell<Option<V>>,
    attempt: Mutex<Attempt>,
    finished: Condvar,
}

#[derive(Default)]
struct Attempt {
    builder: Option<ThreadId>,
    failures: u64,
    last_error: Option<Error>,
}

// SAFETY: nodes are reached through shared references only; keys and values are handed to other
// threads (`Send`) and read by several at once (`Sync`). The value is written by the one thread that
// holds the build, before `ready` is released, and read after `ready` is acquired.
unsafe impl<K: Send + Sync, V: Send + Sync> Sync for OnceCache<K, V> {}
// SAFETY: the cache owns its nodes.
unsafe impl<K: Send, V: Send> Send for OnceCache<K, V> {}

/// A value from a [`OnceCache`].
pub enum Cached<'a, V> {
    /// Kept by the cache.
    Shared(&'a V),
    /// Built for this caller, because the cache is full.
    Own(V),
}

impl<V> Deref for Cached<'_, V> {
    type Target = V;

    fn deref(&self) -> &V {
        match self {
            Cached::Shared(value) => value,
            Cached::Own(value) => value,
        }
    }
}

impl<K: Hash + Eq + std::fmt::Debug, V> OnceCache<K, V> {
    /// An empty cache for at most `capacity` values.
    pub fn new(capacity: usize) -> Self {
        let bucket = || Bucket { head: AtomicPtr::new(ptr::null_mut()), insert: Mutex::new(()) };
        Self {
            buckets: (0..BUCKETS).map(|_| bucket()).collect(),
            entries: AtomicUsize::new(0),
            builds: AtomicUsize::new(0),
            capacity,
            hasher: RandomState::new(),
        }
    }

    /// How many builds were started.
    pub fn builds(&self) -> usize {
        self.builds.load(Ordering::Relaxed)
    }

    /// How many keys are kept.
    pub fn len(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    /// Whether no key is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key, building it if nobody has. `build` runs without any lock held.
    ///
    /// # Errors
    ///
    /// The error of `build`, or [`Error::Compile`] if it panicked or asks for its own key.
    pub fn get_or_build(
        &self,
        key: K,
        build: impl FnOnce(&K) -> Result<V>,
    ) -> Result<Cached<'_, V>> {
        let bucket = &self.buckets[self.hasher.hash_one(&key) as usize % BUCKETS];
        let node = match self.find(bucket, &key) {
            Some(node) => node,
            None => match self.insert(bucket, key) {
                Ok(node) => node,
                Err(key) => return self.guarded(&key, build).map(Cached::Own),
            },
        };
        if node.ready.load(Ordering::Acquire) {
            return Ok(Cached::Shared(node.value()));
        }
        self.build_or_wait(node, build).map(Cached::Shared)
    }

    fn find<'a>(&'a self, bucket: &'a Bucket<K, V>, key: &K) -> Option<&'a Node<K, V>> {
        let mut next = bucket.head.load(Ordering::Acquire).cast_const();
        // SAFETY: nodes are published fully built, and freed only when the cache is dropped.
        while let Some(node) = unsafe { next.as_ref() } {
            if node.key == *key {
                return Some(node);
            }
            next = node.next;
        }
        None
    }

    /// Adds a node, or gives the key back when the cache is full.
    fn insert<'a>(&'a self, bucket: &'a Bucket<K, V>, key: K) -> Result<&'a Node<K, V>, K> {
        let _guard = lock(&bucket.insert);
        if let Some(node) = self.find(bucket, &key) {
            return Ok(node);
        }
        if self.entries.fetch_add(1, Ordering::Relaxed) >= self.capacity {
            self.entries.fetch_sub(1, Ordering::Relaxed);
            return Err(key);
        }
        let node = Box::into_raw(Box::new(Node {
            key,
            next: bucket.head.load(Ordering::Relaxed),
            ready: AtomicBool::new(false),
            value: std::cell::UnsafeCell::new(None),
            attempt: Mutex::new(Attempt::default()),
            finished: Condvar::new(),
        }));
        bucket.head.store(node, Ordering::Release);
        // SAFETY: just allocated, and freed only when the cache is dropped.
        Ok(unsafe { &*node })
    }

    fn build_or_wait<'a>(
        &'a self,
        node: &'a Node<K, V>,
        build: impl FnOnce(&K) -> Result<V>,
    ) -> Result<&'a V> {
        let this_thread = std::thread::current().id();
        let mut attempt = lock(&node.attempt);
        let failures = attempt.failures;
        while let Some(builder) = attempt.builder {
            if builder == this_thread && !cfg!(loom) {
                return Err(Error::Compile {
                    key: format!("{:?}", node.key),
                    message: "building it asked for itself".into(),
                });
            }
            (attempt, _) = wait_until(&node.finished, attempt, None);
            if attempt.failures != failures
                && let Some(error) = &attempt.last_error
            {
                return Err(error.clone());
            }
        }
        if node.ready.load(Ordering::Acquire) {
            return Ok(node.value());
        }
        attempt.builder = Some(this_thread);
        drop(attempt);

        let result = self.guarded(&node.key, build);

        let mut attempt = lock(&node.attempt);
        attempt.builder = None;
        let result = match result {
            Ok(value) => {
                // SAFETY: `builder` was ours, so no other thread writes, and none reads before `ready`.
                unsafe { *node.value.get() = Some(value) };
                node.ready.store(true, Ordering::Release);
                attempt.last_error = None;
                Ok(node.value())
            }
            Err(error) => {
                attempt.failures += 1;
                attempt.last_error = Some(error.clone());
                Err(error)
            }
        };
        drop(attempt);
        node.finished.notify_all();
        result
    }

    fn guarded(&self, key: &K, build: impl FnOnce(&K) -> Result<V>) -> Result<V> {
        self.builds.fetch_add(1, Ordering::Relaxed);
        catch_unwind(AssertUnwindSafe(|| build(key))).unwrap_or_else(|panic| {
            Err(Error::Compile {
                key: format!("{key:?}"),
                message: crate::panic_message(&*panic).into(),
            })
        })
    }
}

impl<K, V> Node<K, V> {
    /// The value of a node that is ready.
    fn value(&self) -> &V {
        // SAFETY: callers saw `ready`, after which nobody writes.
        unsafe { (*self.value.get()).as_ref() }.expect("a ready node has a value")
    }
}

impl<K, V> Drop for OnceCache<K, V> {
    fn drop(&mut self) {
        for bucket in &self.buckets {
            let mut next = bucket.head.load(Ordering::Acquire);
            while !next.is_null() {
                // SAFETY: the cache owns its nodes, and nobody else can have a reference now.
                let node = unsafe { Box::from_raw(next) };
                next = node.next.cast_mut();
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn each_key_is_built_once_by_many_threads() {
        let cache = OnceCache::new(1000);
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
        let cache = OnceCache::<&str, u32>::new(4);
        let failed = Error::Compile { key: "k".into(), message: "no".into() };
        assert_eq!(cache.get_or_build("k", |_| Err(failed.clone())).err(), Some(failed));
        assert_eq!(*cache.get_or_build("k", |_| Ok(7)).unwrap(), 7);
        assert_eq!(*cache.get_or_build("k", |_| panic!("built already")).unwrap(), 7);
    }

    #[test]
    fn a_panic_becomes_an_error_and_can_be_tried_again() {
        let cache = OnceCache::<&str, u32>::new(4);
        let error = cache.get_or_build("k", |_| panic!("bad kernel")).err().unwrap();
        assert!(error.to_string().contains("bad kernel"), "{error}");
        assert_eq!(*cache.get_or_build("k", |_| Ok(7)).unwrap(), 7);
    }

    #[test]
    fn a_build_that_asks_for_itself_is_an_error_and_other_keys_are_not() {
        let cache = OnceCache::<u32, u32>::new(4);
        let result = cache.get_or_build(1, |_| {
            let other = *cache.get_or_build(2, |_| Ok(20))?;
            cache.get_or_build(1, |_| Ok(0)).map(|own| *own + other)
        });
        assert!(result.err().unwrap().to_string().contains("itself"));
        assert_eq!(*cache.get_or_build(2, |_| Ok(0)).unwrap(), 20);
    }

    #[test]
    fn a_full_cache_still_answers() {
        let cache = OnceCache::<u32, u32>::new(2);
        for key in 0..5 {
            assert_eq!(*cache.get_or_build(key, |&key| Ok(key + 1)).unwrap(), key + 1);
        }
        assert_eq!(cache.len(), 2);
        assert!(matches!(cache.get_or_build(9, |_| Ok(0)), Ok(Cached::Own(0))));
        assert!(matches!(cache.get_or_build(0, |_| Ok(0)), Ok(Cached::Shared(1))));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize as Counter;
    use loom::thread;

    use super::*;

    #[test]
    fn loom_two_threads_build_one_key_once() {
        loom::model(|| {
            let cache = Arc::new(OnceCache::<u32, u32>::new(4));
            let other = {
                let cache = Arc::clone(&cache);
                thread::spawn(move || *cache.get_or_build(1, |_| Ok(10)).unwrap())
            };
            assert_eq!(*cache.get_or_build(1, |_| Ok(10)).unwrap(), 10);
            assert_eq!(other.join().unwrap(), 10);
            assert_eq!(cache.builds(), 1);
        });
    }

    /// One build fails (by error or by panic): its waiters are released with an error, or try
    /// themselves; nobody hangs, and afterwards the key can be built.
    fn failing_build(panics: bool) {
        loom::model(move || {
            let cache = Arc::new(OnceCache::<u32, u32>::new(4));
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
}
