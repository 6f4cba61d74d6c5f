//! Waiting for a stream, and making one stream wait for another.

use std::time::Duration;

use super::submit::{Deadline, Reason, Submitted};
use super::{Stream, Timepoint};
use crate::{Error, Result, WaitFor};

impl Stream {
    /// Whether everything recorded has finished. Submits what was not, if there is room; never waits.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::Device;
    ///
    /// let stream = Device::cpu()?.stream()?;
    /// if !stream.query()? {
    ///     // … something else in the meantime …
    /// }
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The fault of the last command that was recorded here, or a device that is gone.
    pub fn query(&self) -> Result<bool> {
        Timepoint::new(self.inner(), self.inner().recorded()).query()
    }

    /// Waits until everything recorded has finished, for as long as the device is set to.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::Device;
    ///
    /// # fn main() -> millstream::Result<()> {
    /// let stream = Device::cpu()?.stream()?;
    /// // … record …
    /// stream.synchronize()?; // all that was recorded is through
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Blocks when
    ///
    /// Anything recorded has not finished.
    ///
    /// # Errors
    ///
    /// The first fault that was not reported yet, a timeout, or a device that is gone.
    pub fn synchronize(&self) -> Result<()> {
        self.inner().synchronize(None)
    }

    /// Like [`synchronize`](Self::synchronize), for at most a given time.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::Device;
    /// use std::time::Duration;
    ///
    /// let stream = Device::cpu()?.stream()?;
    /// stream.synchronize_within(Duration::from_secs(1))?;
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Blocks when
    ///
    /// As for [`synchronize`](Self::synchronize).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn synchronize_within(&self, time: Duration) -> Result<()> {
        self.inner().synchronize(Some(time))
    }

    /// Makes what is recorded here from now on wait for a point of another stream. The calling thread
    /// does not wait.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::{Device, Stream};
    ///
    /// # fn main() -> millstream::Result<()> {
    /// let device = Device::cpu()?;
    /// let (first, second) = (Stream::new(&device)?, Stream::new(&device)?);
    /// second.wait_for(first.timepoint())?; // what `second` records from here on comes after
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Blocks when
    ///
    /// What it waits for, or what was recorded here, is not submitted, and there is no room for it.
    ///
    /// # Errors
    ///
    /// The point belongs to another device, or the device is gone.
    #[doc(alias = "wait_stream")]
    pub fn wait_for(&self, point: Timepoint) -> Result<()> {
        let stream = self.inner();
        let device = stream.device_inner();
        device.check()?;
        if !std::ptr::eq(point.stream().device_inner(), device) {
            return Err(Error::WrongDevice {
                what: "a timepoint",
                found: point.stream().device_inner().label().to_owned(),
                expected: device.label().to_owned(),
            });
        }
        if point.passed() || std::ptr::eq(point.stream(), stream) {
            return Ok(());
        }
        let deadline = Deadline::usual(device);
        point.submit(deadline)?;
        let wait = WaitFor { stream: point.stream().id(), sequence: point.sequence() };
        loop {
            let mut recorder = stream.lock();
            if recorder.batch.is_empty() {
                recorder.add_wait(wait);
                return Ok(());
            }
            // Commands already recorded must not wait for it: they go in a batch before.
            if let Submitted::Full { until } = stream.submit(&mut recorder, Reason::Flush)? {
                drop(recorder);
                stream.wait_for_room(until, deadline)?;
            }
        }
    }

    /// The timepoint of everything recorded so far.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::Device;
    ///
    /// let stream = Device::cpu()?.stream()?;
    /// let point = stream.timepoint();
    /// // … record more …
    /// point.wait()?; // for what was recorded before the point
    /// # Ok::<(), millstream::Error>(())
    /// ```
    pub fn timepoint(&self) -> Timepoint {
        Timepoint::new(self.inner(), self.inner().recorded())
    }
}
