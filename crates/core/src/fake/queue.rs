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

    /// Checks that there is one submit at a time: encoders must not be used by two threads.
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
        // Gives another thread the chance to submit at the same time, which is a violation.
        std::thread::yield_now();
        let result = self.shared.submit(self.stream, batch);
        self.leave();
        result
    }

    fn poll(&self) {
        self.shared.lock().step();
    }

    /// No thread would finish work later, so everything that can finish does so now. A task that waits for a hung
    /// stream is woken by the thread that lets the stream continue.
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
        let hook = self.shared.lock().at_next_wait.take();
        if let Some(hook) = hook {
            hook();
        }
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
        // Nothing advances: the stream hangs, or waits for one that does.
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
