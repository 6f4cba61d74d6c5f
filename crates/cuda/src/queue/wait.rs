//! Waiting for a stream.
//!
//! A short spin on the page, since most calls are short; then sleep, woken by the device's watcher. A
//! sleeper also looks by itself now and then: nothing depends on the watcher but how soon it wakes up,
//! and a fault of the hardware shows only when the driver is asked.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use millstream_core::Result;

use super::CudaQueue;

/// How long a waiter spins, if there are cores for it.
const SPIN: Duration = Duration::from_micros(30);
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
        if self.is_known(sequence) || self.spin(sequence, deadline) {
            return Ok(());
        }
        let _parked = Parked::new(self);
        let mut slice = FIRST_SLICE;
        loop {
            let until = (Instant::now() + slice).min(deadline);
            self.progress.wait_for_change(self.progress.completed(), sequence, Some(until));
            self.retire();
            if self.is_known(sequence) || Instant::now() >= deadline {
                return Ok(());
            }
            if slice < LAST_SLICE {
                slice *= 2;
            }
            self.look_at_hardware()?;
        }
    }

    /// Gives `true` when the outcome is known.
    fn spin(&self, sequence: u64, deadline: Instant) -> bool {
        let Some(_spinner) = self.shared.spinner() else { return false };
        let until = (Instant::now() + SPIN).min(deadline);
        loop {
            for _ in 0..LOOKS {
                if self.is_ready() {
                    self.retire();
                }
                if self.is_known(sequence) {
                    return true;
                }
                std::hint::spin_loop();
            }
            if Instant::now() >= until {
                return false;
            }
        }
    }

    /// Asks the driver whether the hardware is well.
    fn look_at_hardware(&self) -> Result<()> {
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
