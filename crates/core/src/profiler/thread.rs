//! Names of threads in the profiler.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A thread of this process. The label outlives the thread, so that a trace can name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadLabel {
    id: u32,
    name: Option<Arc<str>>,
}

impl ThreadLabel {
    /// The label of the calling thread.
    pub fn current() -> Self {
        thread_local! {
            static OWN: ThreadLabel = ThreadLabel::new();
        }
        // A thread that is ending may have dropped its label already.
        OWN.try_with(Clone::clone).unwrap_or(ThreadLabel { id: 0, name: None })
    }

    fn new() -> Self {
        // 0 is for threads that have no number anymore.
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        ThreadLabel { id, name: std::thread::current().name().map(Arc::from) }
    }

    /// A number that no other thread of the process has.
    pub fn id(&self) -> u32 {
        self.id
    }
}

impl fmt::Display for ThreadLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => f.write_str(name),
            None => write!(f, "thread {}", self.id),
        }
    }
}
