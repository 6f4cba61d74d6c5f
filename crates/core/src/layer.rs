//! Names of layers, so that a fault can say whose Command failed.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

/// Names are kept for the life of the process, so there is a bound on how many there are and on how long each is.
const MAX_NAMES: usize = 1 << 16;
const LONGEST_NAME: usize = 256;

/// What every further name is called once there are too many.
static OVERFLOW: &&str = &"(too many layer names)";

type Names = HashMap<&'static str, LayerName>;

/// All names there are. Taken only when a layer is made, never when one is used.
static NAMES: Mutex<Option<Names>> = Mutex::new(None);

thread_local! {
    static CURRENT: Cell<Option<LayerName>> = const { Cell::new(None) };
}

/// The name of a layer, such as `encoder.layer.0.attention.query`.
///
/// It is one machine word and costs nothing to copy or to compare: equal names are stored once. Names are kept for
/// the life of the process. At most 65,536 different ones are kept, of which at most 256 bytes each; further names
/// all become one that says so.
///
/// # Thread safety
///
/// Names may go to any thread. What a thread has entered is its own.
///
/// # Example
///
/// ```
/// # millstream_core::doctest!();
/// use millstream::profiler::LayerName;
///
/// let layer = LayerName::new("decoder.0");
/// {
///     let _scope = layer.enter();
///     assert_eq!(LayerName::current(), Some(layer)); // what Commands recorded here are known by
/// }
/// assert_eq!(LayerName::current(), None);
/// ```
#[derive(Clone, Copy)]
pub struct LayerName(&'static &'static str);

impl LayerName {
    /// The name with this text, cut to 256 bytes. Takes a lock and may allocate: make names with layers, not with calls.
    pub fn new(name: &str) -> Self {
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        Self::intern(names.get_or_insert_default(), name, MAX_NAMES)
    }

    fn intern(names: &mut Names, name: &str, most: usize) -> Self {
        let name = &name[..name.floor_char_boundary(LONGEST_NAME)];
        if let Some(&known) = names.get(name) {
            return known;
        }
        if names.len() >= most {
            return Self(OVERFLOW);
        }
        let text: &'static str = Box::leak(name.into());
        let kept = Self(Box::leak(Box::new(text)));
        names.insert(text, kept);
        kept
    }

    /// Makes this the calling thread's current layer until the scope is dropped, which puts the former one back.
    #[inline]
    pub fn enter(self) -> LayerScope {
        let former = CURRENT.replace(Some(self));
        LayerScope { former, of_this_thread: PhantomData }
    }

    /// The layer that the calling thread is in: the innermost one it has entered.
    #[inline]
    pub fn current() -> Option<Self> {
        CURRENT.get()
    }

    /// The text.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl PartialEq for LayerName {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for LayerName {}

impl fmt::Display for LayerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Debug for LayerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LayerName({:?})", self.0)
    }
}

/// The time that a thread spends in a layer; see [`LayerName::enter`].
///
/// It stays on the thread that entered:
///
/// ```compile_fail,E0277
/// # use millstream_core::api as millstream;
/// let scope = millstream::profiler::LayerName::new("layer").enter();
/// std::thread::spawn(move || drop(scope));
/// ```
#[derive(Debug)]
#[must_use = "the layer is left when this is dropped"]
pub struct LayerScope {
    former: Option<LayerName>,
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for LayerScope {
    #[inline]
    fn drop(&mut self) {
        CURRENT.set(self.former);
    }
}

#[cfg(test)]
mod tests;
