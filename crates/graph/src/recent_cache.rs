//! A bounded cache whose values are built once and found without a lock.
//!
//! All entries are in one list that is replaced whole when a value is added, so a reader walks a list that nobody changes.
//! Lists are short: a model is called with few shapes at a time. While a value is built, its key is in the list of builds;
//! threads that need it wait for that build only. A build that fails or panics releases its waiters with the error and
//! leaves nothing behind.

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use millstream_core::sync::shim::{
    AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, lock, wait_until,
};
use std::sync::Arc;

use crate::{Error, Result};

type List<K, V> = Vec<Arc<Entry<K, V>>>;

/// A cache of the values used last. See the module's documentation.
///
/// # Bound
///
/// At most `capacity` values are kept. A further one takes the place of the one that was not used for longest; whoever
/// has that one still keeps it.
pub(crate) struct RecentCache<K, V> {
    list: Shared<List<K, V>>,
    /// What is being built. Also held to replace the list, and never during a build.
    builds: Mutex<Vec<Arc<Build<K, V>>>>,
    /// Advances whenever a value is added. An entry notes the time of its use, so that uses between two additions
    /// write nothing after the first. Caches that are trimmed together share one.
    time: Arc<AtomicUsize>,
    built: AtomicUsize,
    capacity: usize,
    timeout: Duration,
}

struct Entry<K, V> {
    key: K,
    value: Arc<V>,
    used: AtomicUsize,
}

/// A clock for caches that are trimmed together.
pub(crate) fn clock() -> Arc<AtomicUsize> {
    Arc::new(AtomicUsize::new(1))
}

/// A build in progress.
struct Build<K, V> {
    key: K,
    builder: ThreadId,
    state: Mutex<State<V>>,
    finished: Condvar,
}

enum State<V> {
    Building,
    Built(Arc<V>),
    Failed(Error),
}

/// A list that is read without a lock and replaced whole.
#[cfg(not(loom))]
struct Shared<T>(arc_swap::ArcSwap<T>);

#[cfg(not(loom))]
impl<T> Shared<T> {
    fn new(value: T) -> Self {
        Self(arc_swap::ArcSwap::from_pointee(value))
    }

    fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.0.load())
    }

    fn replace(&self, value: T) {
        self.0.store(Arc::new(value));
    }
}

/// The same for loom, which does not know the library.
#[cfg(loom)]
struct Shared<T>(Mutex<Arc<T>>);

#[cfg(loom)]
impl<T> Shared<T> {
    fn new(value: T) -> Self {
        Self(Mutex::new(Arc::new(value)))
    }

    fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        let list = Arc::clone(&lock(&self.0));
        read(&list)
    }

    fn replace(&self, value: T) {
        *lock(&self.0) = Arc::new(value);
    }
}

impl<K: Clone + PartialEq + fmt::Debug, V> RecentCache<K, V> {
    /// An empty cache for at most `capacity` values, at least one. A thread waits for another thread's build for at most
    /// `timeout`.
    pub fn new(capacity: usize, timeout: Duration) -> Self {
        Self::with_clock(capacity, timeout, clock())
    }

    /// The same, with the clock of other caches, so that uses of their values can be compared.
    pub fn with_clock(capacity: usize, timeout: Duration, time: Arc<AtomicUsize>) -> Self {
        Self {
            list: Shared::new(Vec::new()),
            builds: Mutex::new(Vec::new()),
            time,
            built: AtomicUsize::new(0),
            capacity: capacity.max(1),
            timeout,
        }
    }

    /// How many builds were started.
    pub fn builds(&self) -> usize {
        self.built.load(Ordering::Relaxed)
    }

    /// The values that are there.
    pub fn values(&self) -> Vec<Arc<V>> {
        self.list.read(|list| list.iter().map(|entry| Arc::clone(&entry.value)).collect())
    }

    /// The values that are there, each with the time of its last use.
    pub fn uses(&self) -> Vec<(usize, Arc<V>)> {
        let used = |entry: &Arc<Entry<K, V>>| {
            (entry.used.load(Ordering::Relaxed), Arc::clone(&entry.value))
        };
        self.list.read(|list| list.iter().map(used).collect())
    }

    /// Takes out a value. Whoever has it still keeps it.
    pub fn remove(&self, value: &Arc<V>) {
        let builds = lock(&self.builds);
        let mut list: List<K, V> = self.list.read(|list| list.iter().map(Arc::clone).collect());
        let found = list.iter().position(|entry| Arc::ptr_eq(&entry.value, value));
        let dropped = found.map(|at| list.remove(at));
        if dropped.is_some() {
            self.list.replace(list);
        }
        drop(builds);
        // With no lock held: a plan has much to free.
        drop(dropped);
    }

    /// Takes out all values.
    pub fn clear(&mut self) -> Vec<Arc<V>> {
        let values = self.values();
        self.list.replace(Vec::new());
        values
    }

    /// Whether there is a value that this says yes to. None counts as used by that.
    pub fn any(&self, accept: impl Fn(&V) -> bool) -> bool {
        self.list.read(|list| list.iter().any(|entry| accept(&entry.value)))
    }

    /// The value of a key, if it is there.
    pub fn find(&self, key: &K) -> Option<Arc<V>> {
        self.list.read(|list| {
            let entry = list.iter().find(|entry| entry.key == *key)?;
            // The order of uses is a guess by which nothing but the next eviction is decided.
            let now = self.time.load(Ordering::Relaxed);
            if entry.used.load(Ordering::Relaxed) != now {
                entry.used.store(now, Ordering::Relaxed);
            }
            Some(Arc::clone(&entry.value))
        })
    }

    /// The value of a key. `build` builds it if it is not there, with no lock held.
    ///
    /// # Errors
    ///
    /// The error of `build`; or [`Error::Compile`] if it panicked, asked for its own key, or another thread's build
    /// timed out.
    pub fn get_or_build(&self, key: K, build: impl FnOnce(&K) -> Result<V>) -> Result<Arc<V>> {
        match self.find(&key) {
            Some(value) => Ok(value),
            None => self.build_or_wait(key, build),
        }
    }

    #[cold]
    fn build_or_wait(&self, key: K, build: impl FnOnce(&K) -> Result<V>) -> Result<Arc<V>> {
        let mut builds = lock(&self.builds);
        if let Some(value) = self.find(&key) {
            return Ok(value);
        }
        if let Some(other) = builds.iter().find(|other| other.key == key) {
            let other = Arc::clone(other);
            drop(builds);
            return self.wait(&other);
        }
        let own = Arc::new(Build {
            key,
            builder: std::thread::current().id(),
            state: Mutex::new(State::Building),
            finished: Condvar::new(),
        });
        builds.push(Arc::clone(&own));
        drop(builds);

        self.built.fetch_add(1, Ordering::Relaxed);
        let result = catch_unwind(AssertUnwindSafe(|| build(&own.key)));
        let result = result.unwrap_or_else(|panic| {
            Err(failure(&own.key, millstream_core::panic_message(&*panic)))
        });
        self.finish(own, result.map(Arc::new))
    }

    /// Adds what was built, and releases who waits for it.
    fn finish(&self, own: Arc<Build<K, V>>, result: Result<Arc<V>>) -> Result<Arc<V>> {
        let mut builds = lock(&self.builds);
        builds.retain(|other| !Arc::ptr_eq(other, &own));
        let dropped = match &result {
            Ok(value) => self.add(own.key.clone(), Arc::clone(value), &builds),
            Err(_) => None,
        };
        drop(builds);
        *lock(&own.state) = match &result {
            Ok(value) => State::Built(Arc::clone(value)),
            Err(error) => State::Failed(error.clone()),
        };
        own.finished.notify_all();
        // With no lock held: a plan has much to free.
        drop(dropped);
        result
    }

    /// Adds an entry under the lock of the builds. Gives back the one whose place it takes.
    fn add(
        &self,
        key: K,
        value: Arc<V>,
        _builds: &MutexGuard<'_, Vec<Arc<Build<K, V>>>>,
    ) -> Option<Arc<Entry<K, V>>> {
        let now = self.time.fetch_add(1, Ordering::Relaxed) + 1;
        let entry = Arc::new(Entry { key, value, used: AtomicUsize::new(now) });
        let mut list: List<K, V> = self.list.read(|list| list.iter().map(Arc::clone).collect());
        let mut dropped = None;
        if list.len() >= self.capacity {
            let used = |at: &usize| list[*at].used.load(Ordering::Relaxed);
            dropped = (0..list.len()).min_by_key(used).map(|at| list.remove(at));
        }
        // The newest first: it is the one that is asked for next.
        list.insert(0, entry);
        self.list.replace(list);
        dropped
    }

    /// Waits for the build of another thread.
    fn wait(&self, build: &Build<K, V>) -> Result<Arc<V>> {
        // loom runs all of its threads on one.
        if build.builder == std::thread::current().id() && !cfg!(loom) {
            return Err(failure(&build.key, "building it asked for itself"));
        }
        let deadline = Instant::now().checked_add(self.timeout);
        let mut in_time = true;
        let mut state = lock(&build.state);
        loop {
            match &*state {
                State::Built(value) => return Ok(Arc::clone(value)),
                State::Failed(error) => return Err(error.clone()),
                State::Building if in_time => {
                    (state, in_time) = wait_until(&build.finished, state, deadline);
                }
                State::Building => {
                    let waited = self.timeout;
                    let text = format!("another thread was still building it after {waited:?}");
                    return Err(failure(&build.key, &text));
                }
            }
        }
    }
}

fn failure(key: &impl fmt::Debug, message: &str) -> Error {
    Error::Compile { key: format!("{key:?}"), message: message.into() }
}

impl<K, V> fmt::Debug for RecentCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecentCache")
            .field("builds", &self.built)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}
