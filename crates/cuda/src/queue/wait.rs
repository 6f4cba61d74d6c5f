//! Waiting for a stream.
//!
//! First a look again and again, since most calls are short: a moment without leaving the core, then giving
//! it to whoever needs it between looks, so that a few waiters per core cost no wake-ups. Then sleep, woken
//! by the device's watcher. Where more threads wait than can look in turn, those who come last sleep at
//! once: the others are served as if they were alone, so that more threads do not make less of them. A
//! sleeper also looks by itself now and then: nothing depends on the watcher but
//! how soon it wakes up, and a fault of the hardware shows only when the driver is asked.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use millstream_core::Result;

use super::CudaQueue;

/// How long a waiter looks without leaving its core, if there is one for each.
const SPIN: Duration = Duration::from_micros(30);
/// How long it looks in all before it sleeps.
const LOOK: Duration = Duration::from_micros(300);
/// As many per core look at a time; whoever comes when they do sleeps at once.
const LOOKERS: usize = 4;
/// How long a sleeper sleeps at most before it looks by itself: the first time, and in the end.
const FIRST_SLICE: Duration = Duration::from_micros(500);
const LAST_SLICE: Duration = Duration::from_millis(20);
/// Looks at the page between looks at the clock.
const LOOKS: usize = 16;

impl CudaQueue {
    /// See [`Queue::wait`](millstream_core::Queue::wait).
    pub(crate) fn wait_until(&self, sequence: u64, deadline: Instant) -> Result<()> {
        self.gpu.check()?;
        self.retire();
        if self.progress.passed(sequence) || self.look(sequence, deadline) {
            return Ok(());
        }
        let _parked = Parked::new(self);
        let mut slice = FIRST_SLICE;
        loop {
            let until = (Instant::now() + slice).min(deadline);
            self.progress.wait_passed(sequence, Some(until));
            self.retire();
            if self.progress.passed(sequence) || Instant::now() >= deadline {
                return Ok(());
            }
            if Instant::now() >= until {
                slice = (slice * 2).min(LAST_SLICE);
                self.look_at_hardware()?;
            }
        }
    }

    /// See [`Queue::watch`](millstream_core::Queue::watch). The watcher takes batches off and wakes tasks as
    /// long as there are any.
    pub(crate) fn watch_for_tasks(&self) -> Result<()> {
        self.gpu.check()?;
        // The task is known to the progress; pairs with `has_sleepers` as in `Parked::new`.
        self.shared.watcher.watch(self.id);
        Ok(())
    }

    /// Looks for a while. Gives `true` when the sequence number has passed.
    fn look(&self, sequence: u64, deadline: Instant) -> bool {
        let (_looker, per_core) = self.shared.looker();
        if per_core > LOOKERS {
            return false;
        }
        let started = Instant::now();
        let until = (started + LOOK).min(deadline);
        let alone = if per_core == 1 { started + SPIN } else { started };
        loop {
            for _ in 0..LOOKS {
                if self.is_ready() {
                    self.retire();
                }
                if self.progress.passed(sequence) {
                    return true;
                }
                std::hint::spin_loop();
            }
            let now = Instant::now();
            if now >= until {
                return false;
            }
            if now >= alone {
                std::thread::yield_now();
            }
        }
    }

    /// Asks the driver whether the hardware is well.
    pub(crate) fn look_at_hardware(&self) -> Result<()> {
        self.gpu.check()?;
        let look = self.gpu.context.make_current().and_then(|()| self.stream.is_idle());
        match look {
            Err(failure) if failure.sticky => Err(self.gpu.note(&failure)),
            _ => Ok(()),
        }
    }
}

/// Asks the watcher to look after a queue, as long as it lives.
struct Parked<'a>(&'a CudaQueue);

impl<'a> Parked<'a> {
    fn new(queue: &'a CudaQueue) -> Self {
        // Before the queue is on the list; pairs with `has_sleepers`, which the watcher asks after it took it off.
        queue.parked.fetch_add(1, Ordering::AcqRel);
        queue.shared.watcher.watch(queue.id);
        Self(queue)
    }
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        self.0.parked.fetch_sub(1, Ordering::AcqRel);
    }
}
