//! Waiting for a stream.
//!
//! First a waiter polls, since most calls are short: it spins for a moment without leaving the core, then gives
//! the core to whoever needs it between polls, so that a few waiters per core cost no wake-ups. Then it parks, woken
//! by the device's watcher, or by the platform where that wakes who waits. Where more threads wait than can spin in turn, those who come last park at
//! once: the others are served as if they were alone, so that more threads do not make less of them. A
//! parked thread also polls by itself now and then: nothing depends on the watcher but
//! how soon it wakes up, and a fault of the hardware shows only when the driver is asked.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use millstream_core::Result;

use super::GpuQueue;
use crate::platform::Platform;

/// How long a waiter spins without leaving its core, if each waiter has a core.
const SPIN: Duration = Duration::from_micros(30);
/// How long it polls in all before it parks.
const POLL: Duration = Duration::from_micros(300);
/// How many threads per core spin at a time. Further ones park at once.
const SPINNERS_PER_CORE: usize = 4;
/// The longest time that a thread is parked before it polls: the first time, and later.
const FIRST_PARK: Duration = Duration::from_micros(500);
const LAST_PARK: Duration = Duration::from_millis(20);
/// Polls between readings of the clock.
const POLLS: usize = 16;

impl<P: Platform> GpuQueue<P> {
    /// See [`Queue::wait`](millstream_core::Queue::wait).
    pub(super) fn wait_until(&self, sequence: u64, deadline: Instant) -> Result<()> {
        let waited = self.wait_for(sequence, deadline);
        if self.wants_memory.load(Ordering::Relaxed)
            && self.wants_memory.swap(false, Ordering::Relaxed)
        {
            self.reclaim.run();
        }
        waited
    }

    fn wait_for(&self, sequence: u64, deadline: Instant) -> Result<()> {
        self.platform.status().check()?;
        self.retire();
        if self.progress.passed(sequence) || self.spin(sequence, deadline) {
            return Ok(());
        }
        // Where the platform wakes whoever waits for a batch nobody need watch.
        let _parked = (!P::WAITS).then(|| Parked::new(self));
        let mut park = FIRST_PARK;
        loop {
            let until = (Instant::now() + park).min(deadline);
            if !(P::WAITS && self.wait_for_batch(sequence, until)) {
                self.progress.wait_passed(sequence, Some(until));
            }
            self.retire();
            if self.progress.passed(sequence) || Instant::now() >= deadline {
                return Ok(());
            }
            if Instant::now() >= until {
                park = (park * 2).min(LAST_PARK);
                self.probe_hardware()?;
            }
        }
    }

    /// Lets the platform block until the batch with that sequence number is through. Gives `false`, at once, if it is
    /// through already: then it is being taken off, or waits for what another thread takes off.
    fn wait_for_batch(&self, sequence: u64, until: Instant) -> bool {
        let tick = self.in_flight.tick_of(|submitted| submitted.batch.last >= sequence);
        let Some(tick) = tick.filter(|tick| self.platform.completed(&self.queue) < *tick) else {
            return false;
        };
        self.platform.wait(&self.queue, tick, until.saturating_duration_since(Instant::now()));
        true
    }

    /// See [`Queue::watch`](millstream_core::Queue::watch). As long as there are tasks, the watcher retires batches
    /// and wakes them.
    pub(super) fn watch_for_tasks(&self) -> Result<()> {
        self.platform.status().check()?;
        // The task is already registered with the progress; pairs with `has_waiters` as in `Parked::new`.
        self.shared.watcher.watch(self.id);
        Ok(())
    }

    /// Polls for a while. Returns `true` when the sequence number has passed.
    fn spin(&self, sequence: u64, deadline: Instant) -> bool {
        let (_spinner, per_core) = self.shared.spinner();
        if per_core > SPINNERS_PER_CORE {
            return false;
        }
        let started = Instant::now();
        let until = (started + POLL).min(deadline);
        let alone = if per_core == 1 { started + SPIN } else { started };
        loop {
            for _ in 0..POLLS {
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

    /// Asks the driver whether the hardware still works.
    pub(crate) fn probe_hardware(&self) -> Result<()> {
        let status = self.platform.status();
        status.check()?;
        match self.platform.enter().and_then(|()| self.platform.probe(&self.queue)) {
            Err(failure) if failure.sticky => Err(status.note(&failure)),
            _ => Ok(()),
        }
    }
}

/// Has the watcher watch a queue, as long as this value lives.
struct Parked<'a, P: Platform>(&'a GpuQueue<P>);

impl<'a, P: Platform> Parked<'a, P> {
    fn new(queue: &'a GpuQueue<P>) -> Self {
        // This comes before the queue is added to the list; pairs with `has_waiters`, which the watcher calls after
        // it took the queue off the list.
        queue.parked.fetch_add(1, Ordering::AcqRel);
        queue.shared.watcher.watch(queue.id);
        Self(queue)
    }
}

impl<P: Platform> Drop for Parked<'_, P> {
    fn drop(&mut self) {
        self.0.parked.fetch_sub(1, Ordering::AcqRel);
    }
}
