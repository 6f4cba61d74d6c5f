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
    /// Somebody asked for it.
    Flush,
    /// Somebody is about to wait for it.
    Wait,
    /// Another thread wants to use the stream.
    Turn,
}

/// What became of a submit.
#[must_use]
pub(super) enum Submitted {
    /// Everything recorded is with the device.
    All,
    /// Too many batches are in flight. The batch stays recorded.
    Full {
        /// The sequence number whose passing makes room.
        until: u64,
    },
}

/// Until when a call may take, and how long that is in all.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    at: Instant,
    time: Duration,
}

impl Deadline {
    pub fn within(time: Duration) -> Self {
        let now = Instant::now();
        // A time too long to add is as good as a day.
        let at = now.checked_add(time).unwrap_or(now + Duration::from_secs(86_400));
        Self { at, time }
    }

    /// The longest that the device is set to wait for.
    pub fn usual(device: &DeviceInner) -> Self {
        Self::within(device.config().wait_timeout)
    }

    pub fn is_over(&self) -> bool {
        Instant::now() >= self.at
    }

    /// The error of a call that came to its end at that Command.
    pub fn timeout(&self, stream: &StreamInner, sequence: u64, command: &'static str) -> Error {
        let device = stream.device_inner().name().to_owned();
        Error::Timeout { device, stream: stream.id(), sequence, command, waited: self.time }
    }

    fn of(device: &DeviceInner, time: Option<Duration>) -> Self {
        Self::within(time.unwrap_or(device.config().wait_timeout))
    }
}

impl StreamInner {
    /// Hands the recorded batch to the device. The caller holds the stream's lock.
    ///
    /// # Errors
    ///
    /// The device or the queue takes nothing any more.
    pub(super) fn submit(&self, recorder: &mut Recorder, reason: Reason) -> Result<Submitted> {
        if recorder.batch.is_empty() {
            return Ok(Submitted::All);
        }
        let device = self.device_inner();
        self.forget_passed(recorder);
        if recorder.in_flight.len() >= device.in_flight_cap() {
            self.poll_locked(recorder);
            // Room for several batches at once, so that a fast recorder does not wait for every one.
            let half = recorder.in_flight.get((recorder.in_flight.len() - 1) / 2);
            if let Some(until) = half.map(|batch| batch.last)
                && !self.progress().passed(until)
            {
                return Ok(Submitted::Full { until });
            }
        }
        let count = recorder.batch.len();
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
        self.progress().make_room(&mut recorder.batch, count);
        let result = self.queue().submit(batch);
        // Waits may name it from here on, whatever became of it.
        self.set_submitted(last);
        device.pool().offer(self, recorder);
        result.map(|()| Submitted::All).map_err(|error| {
            // Who waits for it is released, and nothing comes after it on this stream.
            let error = device.broken(error);
            device.note_error_locked(&error);
            self.progress().lose(error.clone());
            recorder.releases_tasks = true;
            error
        })
    }

    /// Hands the recorded batch to the device, unless everything up to `sequence` is there. A batch that somebody
    /// is about to wait for ([`Reason::Wait`]) thus has what is waited for in it: the device leaves it to the
    /// waiting thread, which would not look at one that another thread has begun in the meantime.
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

    /// Forgets batches that are through.
    fn forget_passed(&self, recorder: &mut Recorder) {
        while recorder.in_flight.front().is_some_and(|batch| self.progress().passed(batch.last)) {
            recorder.in_flight.pop_front();
        }
    }

    fn poll_locked(&self, recorder: &mut Recorder) {
        self.queue().poll();
        recorder.releases_tasks = true;
    }

    /// Whether much can be recorded here before somebody has to wait: half of what may be in flight is free. If
    /// not, the sequence number whose passing makes it so.
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
        // A queue that takes nothing any more has released those who wait for it.
        let _ = self.submit(&mut self.lock(), Reason::Flush);
    }

    /// Submits everything up to a sequence number if that needs no waiting. Gives the sequence number whose
    /// passing brings a task further that waits for that one.
    pub(super) fn submit_for_task(&self, sequence: u64) -> Result<u64> {
        if self.submitted() >= sequence {
            return Ok(sequence);
        }
        // Nobody is about to wait for the batch: the device's own threads have to run it.
        match self.submit_up_to(&mut self.lock(), sequence, Reason::Flush)? {
            Submitted::All => Ok(sequence),
            Submitted::Full { until } => Ok(until),
        }
    }

    /// Blocks until the device is through with a sequence number, whatever became of it.
    pub fn wait_until_passed(&'static self, sequence: u64, time: Option<Duration>) -> Result<()> {
        if self.progress().completed() >= sequence {
            return Ok(());
        }
        self.wait_until_passed_by(sequence, Deadline::of(self.device_inner(), time))
    }

    /// The same, for a call that has other streams to wait for too.
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
        // The device is asked at least once, however short the time and however busy the machine.
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

    /// The same, for a call that has other streams to wait for too.
    pub fn synchronize_by(&'static self, deadline: Deadline) -> Result<()> {
        self.device_inner().check()?;
        let last = self.recorded();
        self.wait_until_passed_by(last, deadline)?;
        self.progress().report_first(last).map_or(Ok(()), Err)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
