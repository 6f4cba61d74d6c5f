//! Events: a timepoint that can be recorded again, with the device's time if wanted.

use std::time::Duration;

use super::{Stream, Timepoint};
use crate::{Buffer, Command, DType, Error, Layout, Result};

/// A mark on a stream. An event that was never recorded is complete.
///
/// # Example
///
/// ```
/// # fn main() -> millstream_core::Result<()> {
/// use millstream_core::{Config, Event, Stream, fake};
///
/// let (device, _) = fake::device(Config::default(), 1 << 20, 1)?;
/// let (first, second) = (Stream::new(&device)?, Stream::new(&device)?);
/// let before = Event::timed(&first)?;
/// // … record work on the first stream …
/// let after = Event::timed(&first)?;
/// after.wait_on(&second)?; // what the second stream records from here on comes later
/// after.synchronize()?;
/// println!("took {:?}", before.elapsed(&after)?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Event {
    point: Option<Timepoint>,
    clock: Option<Buffer>,
}

impl Event {
    /// An event that was never recorded.
    pub fn new() -> Self {
        Self::default()
    }

    /// Marks what a stream has recorded so far.
    pub fn record(stream: &Stream) -> Self {
        Self { point: Some(stream.timepoint()), clock: None }
    }

    /// Marks what a stream has recorded so far and has the device note the time.
    ///
    /// # Blocks when
    ///
    /// As for [`Stream::record`].
    ///
    /// # Errors
    ///
    /// No memory for the time, or a device that is gone.
    pub fn timed(stream: &Stream) -> Result<Self> {
        let clock = stream.allocate(DType::I64.size())?;
        let command = Command::timestamp(clock.operand(Layout::scalar(DType::I64)))?;
        let point = stream.record(command)?;
        Ok(Self { point: Some(point), clock: Some(clock) })
    }

    /// The point it marks, if it was recorded.
    pub fn timepoint(&self) -> Option<Timepoint> {
        self.point
    }

    /// Whether what it marks has finished.
    ///
    /// # Errors
    ///
    /// The fault of the work, or a device that is gone.
    pub fn query(&self) -> Result<bool> {
        self.point.map_or(Ok(true), |point| point.query())
    }

    /// Waits until what it marks has finished, for as long as the device is set to.
    ///
    /// # Blocks when
    ///
    /// What it marks has not finished. The [timepoint](Self::timepoint) can be awaited.
    ///
    /// # Errors
    ///
    /// The fault of the work, a timeout, or a device that is gone.
    pub fn synchronize(&self) -> Result<()> {
        self.point.map_or(Ok(()), |point| point.wait())
    }

    /// Waits until what it marks has finished, for at most a given time.
    ///
    /// # Blocks when
    ///
    /// As for [`synchronize`](Self::synchronize).
    ///
    /// # Errors
    ///
    /// As for [`synchronize`](Self::synchronize).
    pub fn synchronize_within(&self, time: Duration) -> Result<()> {
        self.point.map_or(Ok(()), |point| point.wait_within(time))
    }

    /// Makes what a stream records from now on wait for this event. A wait that no Command has followed ends when
    /// the stream is given back.
    ///
    /// # Blocks when
    ///
    /// As for [`Stream::wait_for`].
    ///
    /// # Errors
    ///
    /// The work belongs to another device, or the device is gone.
    pub fn wait_on(&self, stream: &Stream) -> Result<()> {
        self.point.map_or(Ok(()), |point| stream.wait_for(point))
    }

    /// The device's time between two timed events; zero if `later` came first. Waits for both.
    ///
    /// # Blocks when
    ///
    /// What they mark has not finished.
    ///
    /// # Errors
    ///
    /// An event without a time, or as for [`synchronize`](Self::synchronize).
    pub fn elapsed(&self, later: &Event) -> Result<Duration> {
        let nanoseconds = later.device_time()?.saturating_sub(self.device_time()?);
        Ok(Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0)))
    }

    fn device_time(&self) -> Result<i64> {
        let Some(clock) = &self.clock else {
            return Err(Error::Invalid {
                op: "elapsed",
                reason: "the event was not made with Event::timed".into(),
            });
        };
        let stream = Stream::current(&clock.device())?;
        let time = stream.download(clock.operand(Layout::scalar(DType::I64)))?;
        Ok(time.read::<i64>()?[0])
    }
}
