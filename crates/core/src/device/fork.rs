//! Noticing that the process was forked.
//!
//! In a child only the forking thread exists, and locks of the parent may be held forever by threads that do not
//! exist there. So an inherited device is recognized by a number, before any lock is touched.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// A number that differs between a process and its forks. It is written only right after a fork.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Starts to watch for forks. Two threads may do this at the same time, which does no harm.
#[cfg(unix)]
pub(crate) fn watch() {
    static WATCHING: AtomicBool = AtomicBool::new(false);
    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
        super::registry::forget();
    }
    if !WATCHING.load(Ordering::Acquire) {
        // SAFETY: the handler only stores to atomics, which is allowed in a child of a process with
        // threads.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        WATCHING.store(true, Ordering::Release);
    }
}

/// Forks do not exist here.
#[cfg(not(unix))]
pub(crate) fn watch() {}
