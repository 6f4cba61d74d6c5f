//! The control of the fake device by a test.

use std::sync::Arc;

use super::state::Shared;
use crate::{Batch, BoundCommand, Error, Progress};

/// Controls a fake device: which faults it has, and which violations it found.
#[derive(Clone)]
pub struct FakeControl(Arc<Shared>);

impl std::fmt::Debug for FakeControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeControl").finish_non_exhaustive()
    }
}

impl FakeControl {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// The violations so far.
    pub fn violations(&self) -> Vec<String> {
        self.0.lock().violations.clone()
    }

    /// Fails the test if there are violations.
    ///
    /// # Panics
    ///
    /// If there are violations.
    pub fn assert_no_violations(&self) {
        let violations = self.violations();
        assert!(violations.is_empty(), "{violations:#?}");
    }

    /// Batches submitted so far.
    pub fn submits(&self) -> u64 {
        self.0.lock().submits
    }

    /// Device memory that is allocated now.
    pub fn memory_taken(&self) -> usize {
        self.0.lock().memory_taken
    }

    /// How many pieces of host memory exist, and how many of them are checked out.
    pub fn host_pieces(&self) -> (usize, usize) {
        self.0.host.count()
    }

    /// Finishes every batch that can finish.
    pub fn run_all(&self) {
        while self.0.step() {}
    }

    /// Refuses one batch, after `count` more submits: all its Commands fail in order.
    pub fn refuse_submit_after(&self, count: u64) {
        self.0.lock().faults.refuse_submit_in = Some(count);
    }

    /// Loses the device after `count` more submits.
    pub fn lose_after(&self, count: u64) {
        self.0.lock().faults.lose_in = Some(count);
    }

    /// Loses the device now. The next call that reaches the device notices it.
    pub fn lose(&self) {
        let lost = Error::DeviceLost { device: "fake".into(), reason: "planted".into() };
        self.0.lock().faults.lost = Some(lost);
    }

    /// Calls `hook` when the next queue is made, before anybody has it.
    pub fn at_next_queue(&self, hook: impl FnOnce() + Send + 'static) {
        self.0.lock().at_next_queue = Some(Box::new(hook));
    }

    /// Calls `hook` when a thread waits for a queue next.
    pub fn at_next_wait(&self, hook: impl FnOnce() + Send + 'static) {
        self.0.lock().at_next_wait = Some(Box::new(hook));
    }

    /// Makes the Command with this sequence number fail when it runs.
    pub fn fail_command(&self, stream: u32, sequence: u64) {
        self.0.lock().faults.failing.push((stream, sequence));
    }

    /// Runs out of memory after `count` more allocations.
    pub fn no_memory_after(&self, count: u64) {
        self.0.lock().faults.no_memory_in = Some(count);
    }

    /// Has memory again.
    pub fn memory_again(&self) {
        self.0.lock().faults.no_memory_in = None;
    }

    /// Checks Commands as if a stream had submitted them.
    pub fn inspect(&self, stream: u32, first: u64, commands: Vec<BoundCommand>) {
        // Only the checks matter here.
        let _ = self.0.submit(stream, Batch::new(commands, first, &[]));
    }

    /// Stops a stream's progress, or lets it continue.
    pub fn hang(&self, stream: u32, hung: bool) {
        if let Some(queue) = self.0.lock().queues.get_mut(&stream) {
            queue.hung = hung;
        }
    }
}

impl Shared {
    pub(super) fn progress(&self, stream: u32) -> Arc<Progress> {
        Arc::clone(&self.lock().queues[&stream].progress)
    }
}
