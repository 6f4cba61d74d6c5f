//! Points in the work of a stream.

use std::fmt;
use std::time::Duration;

use super::StreamInner;
use super::submit::Reason;
use crate::{Device, Result};

/// A stream and a sequence number: passed when the stream has finished everything up to it.
///
/// Plain data: nothing is pooled, nothing leaks, and any thread may ask or wait.
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

    /// Whether it has passed. Submits the work if nobody has.
    ///
    /// # Errors
    ///
    /// The fault of the work, or a device that is gone.
    pub fn query(&self) -> Result<bool> {
        self.stream.device_inner().check()?;
        if self.stream.progress().outcome(self.sequence).done()? {
            return Ok(true);
        }
        self.submit()?;
        self.stream.queue().poll();
        self.stream.progress().outcome(self.sequence).done()
    }

    /// Waits until it has passed, for as long as the device is set to.
    ///
    /// # Errors
    ///
    /// The fault of the work, a timeout, or a device that is gone.
    pub fn wait(&self) -> Result<()> {
        self.stream.device_inner().check()?;
        self.stream.wait_until_passed(self.sequence, None)
    }

    /// Waits until it has passed, for at most a given time.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Self::wait).
    pub fn wait_within(&self, time: Duration) -> Result<()> {
        self.stream.device_inner().check()?;
        self.stream.wait_until_passed(self.sequence, Some(time))
    }

    /// Whether the device is through with it, be it done or failed.
    pub(crate) fn passed(&self) -> bool {
        self.stream.progress().passed(self.sequence)
    }

    /// Submits the work up to here if nobody has.
    pub(crate) fn submit(&self) -> Result<()> {
        self.stream.flush_up_to(self.sequence, Reason::Flush)
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
