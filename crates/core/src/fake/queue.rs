//! A queue of the fake device.

use std::sync::Arc;
use std::time::Instant;

use super::CommandBuffer;
use super::host::HostMemory;
use super::state::Shared;
use crate::{Batch, Error, HostBytes, Progress, Queue, Result};

pub(super) struct FakeQueue {
    shared: Arc<Shared>,
    stream: u32,
}

impl FakeQueue {
    pub fn new(shared: Arc<Shared>, stream: u32) -> Self {
        Self { shared, stream }
    }

    fn violation(&self, text: String) {
        self.shared.lock().violations.push(text);
    }

    /// One submit at a time: encoders are not made for two threads.
    fn enter(&self) {
        let mut state = self.shared.lock();
        let queue = state.queues.get_mut(&self.stream).expect("a queue was made for the stream");
        if std::mem::replace(&mut queue.submitting, true) {
            state.violations.push(format!("two threads submit to stream {} at once", self.stream));
        }
    }

    fn leave(&self) {
        let mut state = self.shared.lock();
        if let Some(queue) = state.queues.get_mut(&self.stream) {
            queue.submitting = false;
        }
    }

    fn encode(&self, batch: &Batch) -> Result<(), &'static str> {
        let mut buffer = CommandBuffer::new();
        for _ in &batch.commands {
            buffer.begin_encoding()?;
            buffer.end_encoding()?;
        }
        buffer.add_handler()?;
        buffer.commit()
    }

    fn check(&self) -> Result<()> {
        self.shared.lock().faults.lost.as_ref().map_or(Ok(()), |lost| Err(Error::clone(lost)))
    }

    fn progress(&self) -> Arc<Progress> {
        self.shared.progress(self.stream)
    }
}

impl Queue for FakeQueue {
    fn submit(&self, batch: Batch) -> Result<()> {
        self.enter();
        if let Err(message) = self.encode(&batch) {
            self.violation(message.into());
        }
        // Gives another thread the chance to do what it must not.
        std::thread::yield_now();
        let result = self.shared.submit(self.stream, batch);
        self.leave();
        result
    }

    fn poll(&self) {
        self.shared.lock().step();
    }

    /// There is no thread that would come along later: what can finish does so now. What hangs is woken by
    /// whoever lets it go on and runs it.
    fn watch(&self, sequence: u64) -> Result<()> {
        let progress = self.progress();
        while !progress.passed(sequence) {
            self.check()?;
            if !self.shared.step() {
                break;
            }
        }
        Ok(())
    }

    fn wait(&self, sequence: u64, deadline: Instant) -> Result<()> {
        let progress = self.progress();
        loop {
            if progress.passed(sequence) {
                return Ok(());
            }
            self.check()?;
            if !self.shared.step() {
                break;
            }
        }
        // Nothing moves: hung, or held back by a stream that is.
        progress.wait_passed(sequence, Some(deadline));
        Ok(())
    }

    fn host_memory(&self, bytes: usize) -> Option<HostBytes> {
        self.shared.host.take(bytes, |size| Some(HostMemory::new(size)))
    }

    fn trim(&self) {
        self.shared.host.trim();
    }
}
