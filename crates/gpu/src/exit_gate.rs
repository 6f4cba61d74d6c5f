//! Work that must not be under way when the process exits.
//!
//! A compiler library ends with the process: what it keeps is destroyed while other threads may still be inside of it, and they crash. So
//! threads go through a gate to get there. At exit the gate is closed: nobody enters any more, and the exit waits a while
//! for those that are inside.

use std::time::Instant;

use millstream_core::sync::shim::{Condvar, Mutex, lock, wait_until};

/// See the module's documentation.
pub(crate) struct Gate {
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Default)]
struct State {
    inside: usize,
    closed: bool,
}

/// Somebody is inside until this is dropped.
pub(crate) struct Inside<'a>(&'a Gate);

impl Gate {
    pub fn new() -> Self {
        Self { state: Mutex::new(State::default()), left: Condvar::new() }
    }

    /// Enters, unless the gate is closed.
    pub fn enter(&self) -> Option<Inside<'_>> {
        let mut state = lock(&self.state);
        if state.closed {
            return None;
        }
        state.inside += 1;
        Some(Inside(self))
    }

    /// Closes the gate, and waits until nobody is inside, or the deadline has passed. Says whether all have left.
    pub fn close(&self, deadline: Option<Instant>) -> bool {
        let mut state = lock(&self.state);
        state.closed = true;
        let mut in_time = true;
        while state.inside > 0 && in_time {
            (state, in_time) = wait_until(&self.left, state, deadline);
        }
        state.inside == 0
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.inside -= 1;
        if state.inside == 0 {
            drop(state);
            self.0.left.notify_all();
        }
    }
}

#[cfg(not(loom))]
pub use process::before_exit;

/// The gate of this process.
#[cfg(not(loom))]
mod process {
    use std::sync::{LazyLock, Once};
    use std::time::{Duration, Instant};

    use super::Gate;

    /// How long an exit waits. A kernel is compiled in less than a second.
    const TIMEOUT: Duration = Duration::from_secs(10);

    /// With the process that it belongs to.
    static GATE: LazyLock<(Gate, u32)> = LazyLock::new(|| (Gate::new(), std::process::id()));

    unsafe extern "C" {
        fn atexit(function: extern "C" fn()) -> std::ffi::c_int;
    }

    extern "C" fn close_at_exit() {
        // A panic must not leave a function that C calls.
        let _ = std::panic::catch_unwind(|| {
            let (gate, process) = &*GATE;
            // In a child of a fork the threads that were inside do not exist.
            if *process == std::process::id() {
                gate.close(Some(Instant::now() + TIMEOUT));
            }
        });
    }

    /// Does work that must not be under way when the process exits. `None` if it exits already; then the work is not begun.
    ///
    /// The library that does the work must have been loaded before: what is registered last runs first at exit, and the gate has
    /// to be closed before the library ends.
    pub fn before_exit<T>(work: impl FnOnce() -> T) -> Option<T> {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| {
            // SAFETY: the function exists as long as the process, and no panic leaves it. If it cannot be registered, the exit
            // does not wait, as without a gate.
            unsafe { atexit(close_at_exit) };
        });
        let _inside = GATE.0.enter()?;
        Some(work())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_closed_gate_lets_nobody_in_and_waits_for_those_inside() {
        let gate = Gate::new();
        let inside = gate.enter().expect("it is open");
        assert!(!gate.close(Some(Instant::now())), "somebody is inside");
        assert!(gate.enter().is_none());
        drop(inside);
        assert!(gate.close(None));
    }

    #[test]
    fn work_is_done_while_the_process_runs() {
        assert_eq!(before_exit(|| 7), Some(7));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, Ordering};

    /// Whoever got in is through when the gate is closed, and nobody is inside afterwards.
    #[test]
    fn loom_nobody_is_inside_of_a_closed_gate() {
        loom::model(|| {
            let gate = Arc::new(Gate::new());
            let working = Arc::new(AtomicBool::new(false));
            let (theirs, at_work) = (Arc::clone(&gate), Arc::clone(&working));
            let thread = loom::thread::spawn(move || {
                if let Some(_inside) = theirs.enter() {
                    at_work.store(true, Ordering::Relaxed);
                    at_work.store(false, Ordering::Relaxed);
                }
            });
            assert!(gate.close(None));
            assert!(!working.load(Ordering::Relaxed));
            assert!(gate.enter().is_none());
            thread.join().unwrap();
        });
    }
}
