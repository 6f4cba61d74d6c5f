//! Points in the work of a stream.

use std::fmt;
use std::time::Duration;

use super::StreamInner;
use super::submit::{Deadline, Reason};
use crate::{Device, Result};

/// A stream and a sequence number.
///
/// It has passed when everything up to it has finished on that stream.
///
/// A timepoint is about progress. Whether a value is valid is known when the value is read. For convenience a
/// timepoint also reports the fault of the one Command that it names.
///
/// Plain data: nothing is pooled, nothing leaks, and any thread may query it or wait.
///
/// ```
/// # millstream_core::doctest!();
/// use millstream::Device;
///
/// # fn main() -> millstream::Result<()> {
/// let stream = Device::cpu()?.stream()?;
/// let point = stream.timepoint(); // all that is recorded so far
/// point.wait()?; // from any thread
/// assert!(point.query()?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Timepoint {
    stream: &'static StreamInner,
    sequence: u64,
}

impl Timepoint {
    pub(crate) fn new(stream: &'static StreamInner, sequence: u64) -> Self {
        Self { stream, sequence }
    }

    pub(crate) fn stream(&self) -> &'static StreamInner {
        self.stream
    }

    /// The number of the stream.
    pub fn stream_id(&self) -> u32 {
        self.stream.id()
    }

    /// The sequence number.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The device.
    pub fn device(&self) -> Device {
        self.stream.device()
    }

    /// Whether it has passed. Submits the work if nobody has and there is room; never waits.
    ///
    /// # Errors
    ///
    /// The fault of the Command that it names, while its stream remembers it (the last 256 are), or a device
    /// that is gone.
    pub fn query(&self) -> Result<bool> {
        self.stream.device_inner().check()?;
        if !self.passed() {
            if !self.is_submitted() {
                self.stream.flush_if_room();
            }
            self.stream.queue().poll();
            self.stream.device_inner().wake_tasks();
        }
        let passed = self.passed();
        self.reported()?;
        match self.stream.progress().lost() {
            Some(error) if self.stream.progress().completed() < self.sequence => Err(error),
            _ => Ok(passed),
        }
    }

    /// Waits until it has passed, for as long as the device is set to.
    ///
    /// # Blocks when
    ///
    /// It has not passed. `point.await` does not.
    ///
    /// # Errors
    ///
    /// The fault of the Command that it names, while its stream remembers it (the last 256 are), a timeout,
    /// or a device that is gone.
    pub fn wait(&self) -> Result<()> {
        self.wait_passed()?;
        self.reported()
    }

    /// Waits until it has passed, for at most a given time.
    ///
    /// # Blocks when
    ///
    /// As for [`wait`](Self::wait).
    ///
    /// # Errors
    ///
    /// As for [`wait`](Self::wait).
    pub fn wait_within(&self, time: Duration) -> Result<()> {
        self.stream.device_inner().check()?;
        self.stream.wait_until_passed(self.sequence, Some(time))?;
        self.reported()
    }

    /// Waits until it has passed, done or failed.
    pub(crate) fn wait_passed(&self) -> Result<()> {
        self.stream.device_inner().check()?;
        self.stream.wait_until_passed(self.sequence, None)
    }

    pub(super) fn reported(&self) -> Result<()> {
        self.stream.progress().report(self.sequence).map_or(Ok(()), Err)
    }

    /// Whether it has passed, done or failed.
    pub(crate) fn passed(&self) -> bool {
        self.stream.progress().passed(self.sequence)
    }

    /// Whether the work up to here is submitted.
    pub(crate) fn is_submitted(&self) -> bool {
        self.stream.submitted() >= self.sequence
    }

    /// Submits the work up to here if it is not.
    pub(crate) fn submit(&self, deadline: Deadline) -> Result<()> {
        self.stream.flush_up_to(self.sequence, Reason::Flush, deadline)
    }
}

impl PartialEq for Timepoint {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.stream, other.stream) && self.sequence == other.sequence
    }
}

impl fmt::Debug for Timepoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timepoint(stream {}, {})", self.stream.id(), self.sequence)
    }
}
