//! A cache in which each value is built once, by one thread, and then read without a lock.
//!
//! Buckets are linked lists that only grow at their head, so readers walk them without a lock. A built value is added
//! to its bucket. While it is being built, its key is in the bucket's list of builds: threads that need it wait for
//! that key only, with a timeout. A build that fails or panics releases its waiters with the error and leaves nothing
//! behind, so the next call tries again.

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

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

/// How many values beyond the capacity are kept; the least recently used is dropped first.
const SPARES: usize = 16;

/// A compile-once cache. See the module's documentation.
///
/// # Bound
///
/// At most `capacity` values are kept for good: they are handed out as references, so none is dropped before the
/// cache. Beyond that, the 16 values used last are kept too, and found with a lock. Any other key is built again, by
/// one thread for all that ask meanwhile.
pub struct OnceCache<K, V> {
    buckets: Box<[Bucket<K, V>]>,
    entries: AtomicUsize,
    builds: AtomicUsize,
    capacity: usize,
    /// How long a thread waits for the build of another.
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
    /// What is being built. The lock is also taken to add to the list, and is never held during a build.
    builds: Mutex<Vec<(K, Arc<Build<V>>)>>,
}

struct Node<K, V> {
    key: K,
    value: V,
    next: *const Node<K, V>,
}

/// A build in progress.
struct Build<V> {
    builder: ThreadId,
    state: Mutex<State<V>>,
    finished: Condvar,
}

enum State<V> {
    Building,
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
    /// Kept as long as it is used, because the cache is full.
    Owned(Arc<V>),
}

impl<V> Deref for Cached<'_, V> {
    type Target = V;

    fn deref(&self) -> &V {
        match self {
            Cached::Shared(value) => value,
            Cached::Owned(value) => value,
        }
    }
}

impl<K: Clone + Hash + Eq + std::fmt::Debug, V> OnceCache<K, V> {
    /// An empty cache for at most `capacity` values. A thread waits for another thread's build for at most `timeout`.
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

    /// The value of a key, if it is there. Never waits for a build.
    pub fn get(&self, key: &K) -> Option<Cached<'_, V>> {
        let bucket = &self.buckets[self.hasher.hash_one(key) as usize % BUCKETS];
        match self.find(bucket, key) {
            Some(value) => Some(Cached::Shared(value)),
            None => self.spare(key).map(Cached::Owned),
        }
    }

    /// The value of a key. `build` builds it if it is not there, with no lock held.
    ///
    /// # Errors
    ///
    /// The error of `build`; or [`Error::Compile`] if it panicked, asked for its own key, or another thread's build
    /// timed out, as when two builds need each other's keys.
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
            return Ok(Cached::Owned(value));
        }
        if let Some((_, other)) = builds.iter().find(|(other, _)| *other == key) {
            let other = Arc::clone(other);
            drop(builds);
            return self.wait(bucket, &key, &other);
        }
        let own = Arc::new(Build {
            builder: std::thread::current().id(),
            state: Mutex::new(State::Building),
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
            Ok(Cached::Owned(value)) => State::Spare(Arc::clone(value)),
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
                State::Spare(value) => return Ok(Cached::Owned(Arc::clone(value))),
                State::Failed(error) => return Err(error.clone()),
                State::Building if in_time => {
                    (state, in_time) = wait_until(&build.finished, state, deadline);
                }
                State::Building => {
                    let text =
                        format!("another thread was still building it after {:?}", self.timeout);
                    return Err(failure(key, &text));
                }
            }
        }
        Ok(Cached::Shared(self.find(bucket, key).expect("kept before its waiters are notified")))
    }

    /// Adds a value. The caller holds the bucket's lock and has checked that it is not there.
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
        // Outside the lock that all keys share: a driver takes long to unload a kernel.
        drop(oldest);
        Cached::Owned(value)
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
