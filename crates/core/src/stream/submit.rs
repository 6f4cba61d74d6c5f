//! Submitting and waiting.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::StreamInner;
use super::inner::Recorder;
use crate::counters::LiveCounters;
use crate::device::DeviceInner;
use crate::profiler::now_ns;
use crate::{Batch, Error, Result};

/// Why a batch is submitted.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Reason {
    /// The batch is large enough.
    Full,
    /// A flush.
    Flush,
    /// The caller is about to wait for it.
    Wait,
    /// Another thread wants to use the stream.
    Turn,
}

/// The result of a submit.
#[must_use]
pub(super) enum Submitted {
    /// Everything recorded is submitted.
    All,
    /// Too many batches are in flight. The batch stays recorded.
    Full {
        /// The sequence number whose passing makes room.
        until: u64,
    },
}

/// The deadline of a call, and how long the call may take in all.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    at: Instant,
    time: Duration,
}

impl Deadline {
    pub fn within(time: Duration) -> Self {
        let now = Instant::now();
        // A time that is too long to add becomes a day.
        let at = now.checked_add(time).unwrap_or(now + Duration::from_secs(86_400));
        Self { at, time }
    }

    /// The deadline by the device's `wait_timeout`.
    pub fn usual(device: &DeviceInner) -> Self {
        Self::within(device.wait_timeout())
    }

    pub fn at(&self) -> Instant {
        self.at
    }

    pub fn is_over(&self) -> bool {
        Instant::now() >= self.at
    }

    /// The error of a call that timed out at this Command.
    pub fn timeout(&self, stream: &StreamInner, sequence: u64, command: &'static str) -> Error {
        let device = stream.device_inner().name().to_owned();
        Error::Timeout { device, stream: stream.id(), sequence, command, waited: self.time }
    }

    fn of(device: &DeviceInner, time: Option<Duration>) -> Self {
        Self::within(time.unwrap_or_else(|| device.wait_timeout()))
    }
}

impl StreamInner {
    /// Hands the recorded batch to the device. The caller holds the stream's lock.
    ///
    /// # Errors
    ///
    /// The device or the queue no longer works.
    pub(super) fn submit(&self, recorder: &mut Recorder, reason: Reason) -> Result<Submitted> {
        if recorder.batch.is_empty() {
            return Ok(Submitted::All);
        }
        let device = self.device_inner();
        self.forget_passed(recorder);
        if recorder.in_flight.len() >= device.in_flight_cap() {
            self.poll_locked(recorder);
            // Waits for room for several batches, so that a fast recorder does not wait for each one.
            let half = recorder.in_flight.get((recorder.in_flight.len() - 1) / 2);
            if let Some(until) = half.map(|batch| batch.last)
                && !self.progress().passed(until)
            {
                return Ok(Submitted::Full { until });
            }
        }
        let count = recorder.batch.len();
        let room = recorder.batch.room();
        let (first, last) = (recorder.recorded + 1 - count as u64, recorder.recorded);
        recorder.note_in_flight(first, last);
        if let Some(begun_ns) = recorder.begun_ns.take() {
            self.profile().add_recorded(first, &recorder.batch.commands, begun_ns, now_ns());
        }
        let waits = std::mem::take(&mut recorder.waits);
        let counters = self.counters();
        LiveCounters::add_locked(&counters.submits, 1);
        let asked_for = matches!(reason, Reason::Flush | Reason::Wait);
        LiveCounters::add_locked(&counters.flushes, u64::from(asked_for));
        if asked_for {
            recorder.turn.refill();
        }
        LiveCounters::add_locked(&counters.waits, waits.len() as u64);
        let batch = Batch::from_lists(&mut recorder.batch, first, waits, reason == Reason::Wait);
        self.progress().make_room(&mut recorder.batch, room);
        let result = self.queue().submit(batch);
        // Waits may name it from here on, even if it failed.
        self.set_submitted(last);
        device.pool().offer(self, recorder);
        result.map(|()| Submitted::All).map_err(|error| {
            // Releases the waiters; nothing comes after it on this stream.
            let error = device.broken(error);
            device.note_error_locked(&error);
            self.progress().lose(error.clone());
            recorder.releases_tasks = true;
            error
        })
    }

    /// Submits the recorded batch, unless everything up to `sequence` is submitted. The device leaves a batch of
    /// [`Reason::Wait`] to the waiting thread, so such a batch must contain what the thread waits for, and not be one
    /// that another thread has begun in the meantime.
    fn submit_up_to(
        &self,
        recorder: &mut Recorder,
        sequence: u64,
        reason: Reason,
    ) -> Result<Submitted> {
        if self.submitted() >= sequence {
            return Ok(Submitted::All);
        }
        self.submit(recorder, reason)
    }

    /// Drops batches that have passed from those in flight.
    fn forget_passed(&self, recorder: &mut Recorder) {
        while recorder.in_flight.front().is_some_and(|batch| self.progress().passed(batch.last)) {
            recorder.in_flight.pop_front();
        }
    }

    fn poll_locked(&self, recorder: &mut Recorder) {
        self.queue().poll();
        recorder.releases_tasks = true;
    }

    /// Whether half of the in-flight limit is free. If not, gives the sequence number that must pass first.
    pub(super) fn is_ample(&self) -> Result<(), u64> {
        let most = self.device_inner().in_flight_cap() / 2;
        let mut recorder = self.lock();
        self.forget_passed(&mut recorder);
        if recorder.in_flight.len() > most {
            self.poll_locked(&mut recorder);
            self.forget_passed(&mut recorder);
        }
        let too_many = recorder.in_flight.len().checked_sub(most + 1);
        let last_of_them = too_many.and_then(|index| recorder.in_flight.get(index));
        last_of_them.map_or(Ok(()), |batch| Err(batch.last))
    }

    /// Submits everything recorded, waiting for room if there is none.
    pub fn flush(&'static self, reason: Reason, deadline: Deadline) -> Result<()> {
        self.flush_up_to(u64::MAX, reason, deadline)
    }

    /// Submits everything up to a sequence number, unless that was done.
    pub fn flush_up_to(
        &'static self,
        sequence: u64,
        reason: Reason,
        deadline: Deadline,
    ) -> Result<()> {
        if self.submitted() >= sequence {
            return Ok(());
        }
        loop {
            let mut recorder = self.lock();
            match self.submit_up_to(&mut recorder, sequence, reason)? {
                Submitted::All => return Ok(()),
                Submitted::Full { until } => {
                    drop(recorder);
                    self.wait_for_room(until, deadline)?;
                }
            }
        }
    }

    /// Submits what is recorded if that needs no waiting. For callers that must not block.
    pub fn flush_if_room(&self) {
        // A queue that no longer works has released its waiters.
        let _ = self.submit(&mut self.lock(), Reason::Flush);
    }

    /// Submits everything up to a sequence number if that needs no waiting. Gives the sequence number that a task has
    /// to wait for next.
    pub(super) fn submit_for_task(&self, sequence: u64) -> Result<u64> {
        if self.submitted() >= sequence {
            return Ok(sequence);
        }
        // No thread waits for the batch, so the device's own threads have to run it.
        match self.submit_up_to(&mut self.lock(), sequence, Reason::Flush)? {
            Submitted::All => Ok(sequence),
            Submitted::Full { until } => Ok(until),
        }
    }

    /// Blocks until a sequence number has passed, done or failed.
    pub fn wait_until_passed(&'static self, sequence: u64, time: Option<Duration>) -> Result<()> {
        if self.progress().completed() >= sequence {
            return Ok(());
        }
        self.wait_until_passed_by(sequence, Deadline::of(self.device_inner(), time))
    }

    /// The same with the deadline of a call that waits for several streams.
    pub fn wait_until_passed_by(&'static self, sequence: u64, deadline: Deadline) -> Result<()> {
        if self.progress().completed() >= sequence {
            return Ok(());
        }
        self.flush_up_to(sequence, Reason::Wait, deadline)?;
        self.counters().blocks.fetch_add(1, Ordering::Relaxed);
        self.wait_passed(sequence, deadline)
    }

    /// The same for what was submitted.
    pub(super) fn wait_passed(&'static self, sequence: u64, deadline: Deadline) -> Result<()> {
        let device = self.device_inner();
        // The device is polled at least once, even if the deadline is over.
        let mut asked = false;
        loop {
            if self.progress().completed() >= sequence {
                return Ok(());
            }
            if let Some(error) = self.progress().lost() {
                return Err(error);
            }
            if asked && deadline.is_over() {
                let unfinished = self.progress().completed() + 1;
                let command = self.lock().command_name(unfinished);
                return Err(deadline.timeout(self, unfinished, command));
            }
            asked = true;
            let result = self.queue().wait(sequence, deadline.at);
            result.inspect_err(|error| device.note_error(error))?;
        }
    }

    /// Waits for everything recorded. Reports the first fault that was not reported yet.
    pub fn synchronize(&'static self, time: Option<Duration>) -> Result<()> {
        self.synchronize_by(Deadline::of(self.device_inner(), time))
    }

    /// The same with the deadline of a call that waits for several streams.
    pub fn synchronize_by(&'static self, deadline: Deadline) -> Result<()> {
        self.device_inner().check()?;
        let last = self.recorded();
        self.wait_until_passed_by(last, deadline)?;
        self.progress().report_first(last).map_or(Ok(()), Err)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
