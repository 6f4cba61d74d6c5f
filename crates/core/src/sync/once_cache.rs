//! A cache in which each value is built once, by one thread, and then read without a lock.
//!
//! Buckets are linked lists that only grow at their head, so a reader walks them with plain loads. A value is
//! put there when it is built. Until then its key stands in the bucket's list of builds: whoever needs it waits
//! for that key only, and not for ever. A build that fails or panics releases its waiters with the error and
//! leaves nothing behind, so the next call tries again.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash, RandomState};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use super::shim::{AtomicPtr, AtomicUsize, Condvar, Mutex, Ordering, lock, wait_until};
use crate::{Error, Result};

#[cfg(loom)]
const BUCKETS: usize = 1;
#[cfg(not(loom))]
const BUCKETS: usize = 256;

/// Values beyond the bound that are kept for a while; the one that was not used for longest goes.
const SPARES: usize = 16;

/// A compile-once cache. See the module's documentation.
///
/// # Bound
///
/// At most `capacity` values are kept for good: they are handed out as references, so none is ever dropped
/// before the cache. Beyond that, the 16 values used last are kept too, and found with a lock. A key that is
/// neither is built again, by one thread for all who ask meanwhile.
pub struct OnceCache<K, V> {
    buckets: Box<[Bucket<K, V>]>,
    entries: AtomicUsize,
    builds: AtomicUsize,
    capacity: usize,
    /// How long anybody waits for the build of another thread.
    timeout: Duration,
    /// Used last at the back. Only taken when a key is not among the entries.
    spares: Mutex<VecDeque<(K, Arc<V>)>>,
    hasher: RandomState,
}

impl<K, V> std::fmt::Debug for OnceCache<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OnceCache")
            .field("entries", &self.entries)
            .field("builds", &self.builds)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

struct Bucket<K, V> {
    head: AtomicPtr<Node<K, V>>,
    /// What is being built. The lock is also taken to add to the list, and is held over no build.
    builds: Mutex<Vec<(K, Arc<Build<V>>)>>,
}

struct Node<K, V> {
    key: K,
    value: V,
    next: *const Node<K, V>,
}

/// A build that a thread is at.
struct Build<V> {
    builder: ThreadId,
    state: Mutex<State<V>>,
    finished: Condvar,
}

enum State<V> {
    UnderWay,
    /// In the bucket's list.
    Kept,
    Spare(Arc<V>),
    Failed(Error),
}

// SAFETY: nodes are reached through shared references only; keys and values are handed to other
// threads (`Send`) and read by several at once (`Sync`). A node is not written after it is published.
unsafe impl<K: Send + Sync, V: Send + Sync> Sync for OnceCache<K, V> {}
// SAFETY: the cache owns its nodes; spares may be held by other threads meanwhile.
unsafe impl<K: Send, V: Send + Sync> Send for OnceCache<K, V> {}

/// A value from a [`OnceCache`].
#[derive(Debug)]
pub enum Cached<'a, V> {
    /// Kept by the cache.
    Shared(&'a V),
    /// Kept for as long as somebody has it, because the cache is full.
    Own(Arc<V>),
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

impl<K: Clone + Hash + Eq + std::fmt::Debug, V> OnceCache<K, V> {
    /// An empty cache for at most `capacity` values, in which nobody waits for another thread's build for longer
    /// than `timeout`.
    pub fn new(capacity: usize, timeout: Duration) -> Self {
        let bucket =
            || Bucket { head: AtomicPtr::new(ptr::null_mut()), builds: Mutex::new(Vec::new()) };
        Self {
            buckets: (0..BUCKETS).map(|_| bucket()).collect(),
            entries: AtomicUsize::new(0),
            builds: AtomicUsize::new(0),
            capacity,
            timeout,
            spares: Mutex::new(VecDeque::new()),
            hasher: RandomState::new(),
        }
    }

    /// How many builds were started.
    pub fn builds(&self) -> usize {
        self.builds.load(Ordering::Relaxed)
    }

    /// How many keys are kept for good.
    pub fn len(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    /// Whether no key is kept for good.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key, building it if nobody has. `build` runs without any lock held.
    ///
    /// # Errors
    ///
    /// The error of `build`, or [`Error::Compile`] if it panicked, asks for its own key, or is another thread's
    /// and not over in time, as when two builds need each other's keys.
    pub fn get_or_build(
        &self,
        key: K,
        build: impl FnOnce(&K) -> Result<V>,
    ) -> Result<Cached<'_, V>> {
        let bucket = &self.buckets[self.hasher.hash_one(&key) as usize % BUCKETS];
        match self.find(bucket, &key) {
            Some(value) => Ok(Cached::Shared(value)),
            None => self.build_or_wait(bucket, key, build),
        }
    }

    fn find<'a>(&'a self, bucket: &'a Bucket<K, V>, key: &K) -> Option<&'a V> {
        // Pairs with `keep`. Older nodes were published under the lock that the newest was.
        let mut next = bucket.head.load(Ordering::Acquire).cast_const();
        // SAFETY: nodes are published fully built, and freed only when the cache is dropped.
        while let Some(node) = unsafe { next.as_ref() } {
            if node.key == *key {
                return Some(&node.value);
            }
            next = node.next;
        }
        None
    }

    #[cold]
    fn build_or_wait<'a>(
        &'a self,
        bucket: &'a Bucket<K, V>,
        key: K,
        build: impl FnOnce(&K) -> Result<V>,
    ) -> Result<Cached<'a, V>> {
        let mut builds = lock(&bucket.builds);
        if let Some(value) = self.find(bucket, &key) {
            return Ok(Cached::Shared(value));
        }
        if let Some(value) = self.spare(&key) {
            return Ok(Cached::Own(value));
        }
        if let Some((_, other)) = builds.iter().find(|(other, _)| *other == key) {
            let other = Arc::clone(other);
            drop(builds);
            return self.wait(bucket, &key, &other);
        }
        let own = Arc::new(Build {
            builder: std::thread::current().id(),
            state: Mutex::new(State::UnderWay),
            finished: Condvar::new(),
        });
        builds.push((key.clone(), Arc::clone(&own)));
        drop(builds);

        let result = self.guarded(&key, build);

        let mut builds = lock(&bucket.builds);
        builds.retain(|(_, other)| !Arc::ptr_eq(other, &own));
        let result = result.map(|value| self.keep(bucket, key, value));
        drop(builds);
        *lock(&own.state) = match &result {
            Ok(Cached::Shared(_)) => State::Kept,
            Ok(Cached::Own(value)) => State::Spare(Arc::clone(value)),
            Err(error) => State::Failed(error.clone()),
        };
        own.finished.notify_all();
        result
    }

    /// Waits for the build of another thread.
    fn wait<'a>(
        &'a self,
        bucket: &'a Bucket<K, V>,
        key: &K,
        build: &Build<V>,
    ) -> Result<Cached<'a, V>> {
        // loom runs all of its threads on one.
        if build.builder == std::thread::current().id() && !cfg!(loom) {
            return Err(failure(key, "building it asked for itself"));
        }
        let deadline = Instant::now().checked_add(self.timeout);
        let mut in_time = true;
        let mut state = lock(&build.state);
        loop {
            match &*state {
                State::Kept => break,
                State::Spare(value) => return Ok(Cached::Own(Arc::clone(value))),
                State::Failed(error) => return Err(error.clone()),
                State::UnderWay if in_time => {
                    (state, in_time) = wait_until(&build.finished, state, deadline);
                }
                State::UnderWay => {
                    let text =
                        format!("another thread was still building it after {:?}", self.timeout);
                    return Err(failure(key, &text));
                }
            }
        }
        Ok(Cached::Shared(self.find(bucket, key).expect("kept before its waiters are notified")))
    }

    /// Puts a value where others find it. The caller holds the bucket's lock and has seen that it is not there.
    fn keep<'a>(&'a self, bucket: &'a Bucket<K, V>, key: K, value: V) -> Cached<'a, V> {
        if self.entries.fetch_add(1, Ordering::Relaxed) < self.capacity {
            let next = bucket.head.load(Ordering::Relaxed);
            let node = Box::into_raw(Box::new(Node { key, value, next }));
            // Pairs with `find`, which reads the node without a lock.
            bucket.head.store(node, Ordering::Release);
            // SAFETY: just allocated, and freed only when the cache is dropped.
            return Cached::Shared(unsafe { &(*node).value });
        }
        self.entries.fetch_sub(1, Ordering::Relaxed);
        let value = Arc::new(value);
        let mut spares = lock(&self.spares);
        let oldest = (spares.len() >= SPARES).then(|| spares.pop_front());
        spares.push_back((key, Arc::clone(&value)));
        drop(spares);
        // Outside the lock that all keys share: a driver takes its time to unload a kernel.
        drop(oldest);
        Cached::Own(value)
    }

    fn spare(&self, key: &K) -> Option<Arc<V>> {
        let mut spares = lock(&self.spares);
        let place = spares.iter().position(|(other, _)| other == key)?;
        let found = spares.remove(place)?;
        let value = Arc::clone(&found.1);
        spares.push_back(found);
        Some(value)
    }

    fn guarded(&self, key: &K, build: impl FnOnce(&K) -> Result<V>) -> Result<V> {
        self.builds.fetch_add(1, Ordering::Relaxed);
        catch_unwind(AssertUnwindSafe(|| build(key)))
            .unwrap_or_else(|panic| Err(failure(key, crate::panic_message(&*panic))))
    }
}

fn failure(key: &impl std::fmt::Debug, message: &str) -> Error {
    Error::Compile { key: format!("{key:?}"), message: message.into() }
}

impl<K, V> Drop for OnceCache<K, V> {
    fn drop(&mut self) {
        for bucket in &self.buckets {
            let mut next = bucket.head.load(Ordering::Relaxed);
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
        assert!(matches!(cache.get_or_build(9, |_| Ok(0)), Ok(Cached::Own(_))));
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
}

#[cfg(all(test, loom))]
mod loom_tests {
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
}
