//! The test's side of the fake device.

use std::sync::Arc;

use super::state::Shared;
use crate::{Batch, BoundCommand, Error, Progress};

/// Controls a fake device: what goes wrong, and what was noticed.
#[derive(Clone)]
pub struct FakeControl(Arc<Shared>);

impl FakeControl {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// What was violated so far.
    pub fn violations(&self) -> Vec<String> {
        self.0.lock().violations.clone()
    }

    /// Fails the test if anything was violated.
    ///
    /// # Panics
    ///
    /// When there are violations.
    pub fn assert_no_violations(&self) {
        let violations = self.violations();
        assert!(violations.is_empty(), "{violations:#?}");
    }

    /// Batches submitted so far.
    pub fn submits(&self) -> u64 {
        self.0.lock().submits
    }

    /// Memory taken from the device now.
    pub fn memory_taken(&self) -> usize {
        self.0.lock().memory_taken
    }

    /// Pieces of host memory that there are, and how many of them are checked out.
    pub fn host_pieces(&self) -> (usize, usize) {
        self.0.host.count()
    }

    /// Finishes every batch that can finish.
    pub fn run_all(&self) {
        while self.0.step() {}
    }

    /// Refuses the batch of the submit after the next `count`: all its Commands fail in their turn.
    pub fn refuse_submit_after(&self, count: u64) {
        self.0.lock().faults.refuse_submit_in = Some(count);
    }

    /// Loses the device at the submit after the next `count`.
    pub fn lose_after(&self, count: u64) {
        self.0.lock().faults.lose_in = Some(count);
    }

    /// Loses the device now; it shows at the next call that reaches it.
    pub fn lose(&self) {
        let lost = Error::DeviceLost { device: "fake".into(), reason: "planted".into() };
        self.0.lock().faults.lost = Some(lost);
    }

    /// Calls `hook` when the next queue is made, before anybody has it.
    pub fn at_next_queue(&self, hook: impl FnOnce() + Send + 'static) {
        self.0.lock().at_next_queue = Some(Box::new(hook));
    }

    /// Makes the command with that sequence number fail when it runs.
    pub fn fail_command(&self, stream: u32, sequence: u64) {
        self.0.lock().faults.failing.push((stream, sequence));
    }

    /// Has no memory after the next `count` allocations.
    pub fn no_memory_after(&self, count: u64) {
        self.0.lock().faults.no_memory_in = Some(count);
    }

    /// Has memory again.
    pub fn memory_again(&self) {
        self.0.lock().faults.no_memory_in = None;
    }

    /// Shows commands to the checks as if a stream had submitted them, without going through one.
    pub fn inspect(&self, stream: u32, first: u64, commands: Vec<BoundCommand>) {
        // Only the checks matter here.
        let _ = self.0.submit(stream, Batch::new(commands, first, &[]));
    }

    /// Stops a stream from coming along, or lets it go on.
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
