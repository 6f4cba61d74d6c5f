//! Devices.

mod builder;
mod config;
pub(crate) mod fork;
mod health;
mod inner;
mod open;
mod registry;

pub use builder::DeviceBuilder;
pub use config::{Config, Exhaustion, MAX_STREAMS};
pub use health::{Health, HealthState};

use std::fmt;
use std::time::Duration;

use self::inner::{CLOSED, LOST, OPEN};
pub(crate) use self::inner::{DeviceInner, opened_devices};
use crate::profiler::Profiler;
use crate::stream::{Deadline, Reason, StreamInner};
use crate::sync::schedule::Ordering;
use crate::{
    BackendInfo, Buffer, Counters, DType, Error, Layout, MemoryStats, OpKind, Ready, Result, Stream,
};

/// A device: a handle that is cheap to copy and may be used from any thread.
///
/// A device lives as long as the process, so that threads may be in the middle of a call when `main` returns.
/// [`close`](Self::close) gives its memory and threads back early.
///
/// ```
/// # millstream_core::doctest!();
/// use millstream::Device;
///
/// # fn main() -> millstream::Result<()> {
/// let device = Device::cpu()?;
/// println!("{} has {} bytes", device.name(), device.info().memory_bytes);
/// assert_eq!(device.memory().in_use, 0);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "Session")]
#[doc(alias = "Context")]
#[derive(Clone, Copy)]
pub struct Device(&'static DeviceInner);

impl Device {
    pub(crate) fn from_inner(inner: &'static DeviceInner) -> Self {
        Device(inner)
    }

    pub(crate) fn inner(&self) -> &'static DeviceInner {
        self.0
    }

    /// The name by which it is opened.
    pub fn name(&self) -> &'static str {
        self.0.name()
    }

    /// The name in messages. If devices of the same name were opened before in this process, a number follows it:
    /// `cpu`, `cpu#2`.
    pub fn label(&self) -> &'static str {
        self.0.label()
    }

    /// Properties of the device.
    pub fn info(&self) -> &'static BackendInfo {
        &self.0.info
    }

    /// The settings of the device.
    pub fn config(&self) -> &'static Config {
        &self.0.config
    }

    /// Whether it executes this kind of Command.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::Device;
    /// use millstream::command::OpKind;
    ///
    /// assert!(Device::cpu()?.supports(OpKind::MatMul));
    /// # Ok::<(), millstream::Error>(())
    /// ```
    pub fn supports(&self, kind: OpKind) -> bool {
        self.0.supports(kind)
    }

    /// The layout of the buffer in which [`Command::pack_weights`](crate::Command::pack_weights) packs weights of
    /// this layout for matrix products. `None` if packing gains nothing on this device: then use the weights as they
    /// are.
    pub fn packed_layout(&self, weights: &Layout) -> Option<Layout> {
        let bytes = self.0.backend.packed_bytes(weights)?;
        Layout::contiguous(DType::U8, &[bytes]).ok()
    }

    /// The calling thread's current stream.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::Device;
    ///
    /// # fn main() -> millstream::Result<()> {
    /// let device = Device::cpu()?;
    /// let stream = device.stream()?; // this thread's, the same at the next call
    /// assert_eq!(stream.id(), device.stream()?.id());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Blocks when
    ///
    /// As for [`Stream::current`].
    ///
    /// # Errors
    ///
    /// As for [`Stream::current`].
    pub fn stream(&self) -> Result<Stream> {
        Stream::current(self)
    }

    /// Waits, without blocking a thread, until recording on the current stream of the polling thread does not block;
    /// see [`Stream::ready`].
    ///
    /// If that stream is busy and another one is idle and free, the thread switches to the other one, so that calls
    /// from a few executor threads run in parallel. The thread keeps a stream that [`Stream::scope`] or
    /// [`Stream::make_current`] gave it, and the main thread keeps the default stream.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::{Device, Result};
    /// async fn call(device: &Device) -> Result<()> {
    ///     device.ready().await?;
    ///     // … record a call here, and await its result …
    ///     device.stream()?.timepoint().await
    /// }
    /// # let device = Device::cpu().unwrap();
    /// # let mut future = std::pin::pin!(call(&device));
    /// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// # while future.as_mut().poll(&mut context).is_pending() {}
    /// ```
    pub fn ready(&self) -> Ready {
        Ready::of_device(*self)
    }

    /// Memory whose home is the calling thread's current stream.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::Device;
    ///
    /// # fn main() -> millstream::Result<()> {
    /// let buffer = Device::cpu()?.allocate(1024)?;
    /// assert!(buffer.bytes() >= 1024);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Blocks when
    ///
    /// As for [`Stream::allocate`].
    ///
    /// # Errors
    ///
    /// As for [`Stream::allocate`].
    pub fn allocate(&self, bytes: usize) -> Result<Buffer> {
        Stream::current_unleased(self)?.allocate(bytes)
    }

    /// Waits until everything recorded so far on any stream has finished. [`Config::wait_timeout`] bounds the whole
    /// wait. A failed stream does not stop the wait for the others.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::Device;
    ///
    /// # fn main() -> millstream::Result<()> {
    /// let device = Device::cpu()?;
    /// // … calls from many threads …
    /// device.synchronize()?; // all of them are through
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
    /// The first error.
    pub fn synchronize(&self) -> Result<()> {
        self.0.check()?;
        let streams: Vec<_> = self.0.pool.created().collect();
        // Submit on all streams before waiting for the first.
        let mut first = Ok(());
        let deadline = Deadline::usual(self.0);
        for stream in &streams {
            first = first.and(stream.flush(Reason::Flush, deadline));
        }
        for stream in &streams {
            first = first.and(stream.synchronize_by(deadline));
        }
        first
    }

    /// Gives unused cached memory back to the device, and pooled host memory of transfers. Memory that a device needs
    /// to replay batches stays.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::Device;
    ///
    /// # fn main() -> millstream::Result<()> {
    /// Device::cpu()?.empty_cache()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Blocks when
    ///
    /// While the driver frees memory.
    ///
    /// # Errors
    ///
    /// A device that is lost or closed.
    pub fn empty_cache(&self) -> Result<()> {
        self.0.check()?;
        crate::memory::trim_device(self.0);
        for stream in self.0.pool.created() {
            stream.queue().trim();
        }
        Ok(())
    }

    /// Memory statistics of the device. All zero for a device that was inherited through a fork.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::Device;
    ///
    /// # fn main() -> millstream::Result<()> {
    /// let memory = Device::cpu()?.memory();
    /// println!("{} bytes in use, {} cached", memory.in_use, memory.cached);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "memory_allocated")]
    pub fn memory(&self) -> MemoryStats {
        if self.0.is_inherited() { MemoryStats::default() } else { crate::memory::stats_of(self.0) }
    }

    /// Counters of all streams.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::Device;
    ///
    /// println!("{}", Device::cpu()?.counters());
    /// # Ok::<(), millstream::Error>(())
    /// ```
    pub fn counters(&self) -> Counters {
        let streams = self.0.pool.created().map(StreamInner::read_counters);
        streams.fold(Counters::default(), std::ops::Add::add)
    }

    /// How long a wait may take: [`Config::wait_timeout`], or what the device decides.
    pub fn wait_timeout(&self) -> Duration {
        self.0.wait_timeout()
    }

    /// How many streams can be leased now.
    pub fn free_streams(&self) -> u32 {
        self.0.pool.free()
    }

    /// The profiler.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::Device;
    ///
    /// let profiler = Device::cpu()?.profiler();
    /// profiler.start();
    /// // … calls …
    /// println!("{}", profiler.summary());
    /// # Ok::<(), millstream::Error>(())
    /// ```
    pub fn profiler(&self) -> &'static Profiler {
        &self.0.profiler
    }

    /// The health of the device.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::Device;
    /// use millstream::device::HealthState;
    ///
    /// assert_eq!(Device::cpu()?.health().state, HealthState::Healthy);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    pub fn health(&self) -> Health {
        self.0.health()
    }

    /// Whether the device can be used, which every call that records or reads looks at by itself. It costs next to nothing: for code
    /// that queues calls before it hands them to the device.
    ///
    /// # Errors
    ///
    /// The device is closed or lost, or was opened by the parent of a forked process.
    pub fn check(&self) -> Result<()> {
        self.0.check()
    }

    /// Finishes what was recorded, then gives memory and threads back. Every later call fails with
    /// [`Error::DeviceClosed`]. Memory of buffers that still exist is freed when they are dropped.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::{Device, Error};
    ///
    /// let device = Device::builder("cpu").open()?;
    /// device.close()?;
    /// assert!(matches!(device.stream(), Err(Error::DeviceClosed { .. })));
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Blocks when
    ///
    /// Recorded work has not finished, and until the threads of the device have ended.
    ///
    /// # Errors
    ///
    /// Work that does not finish in time (the device then stays open), or a device that is lost. If the last work
    /// failed, its fault is returned after closing.
    pub fn close(self) -> Result<()> {
        self.0.check()?;
        let result = self.0.wait_idle();
        if is_late(&result) {
            return result;
        }
        if self
            .0
            .status
            .compare_exchange(OPEN, CLOSED, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            return self.0.check();
        }
        // Waits for what was recorded between the first wait and the closing. What still runs keeps the device open: the backend
        // closes queues on which nothing does.
        let last = self.0.wait_idle();
        if is_late(&last) {
            self.0.reopen();
            return last;
        }
        self.0.backend.close();
        if let Some(path) = &self.0.config.trace {
            crate::profiler::file::device_closed(path, self.0.profiler.take_trace());
        }
        crate::memory::trim_device(self.0);
        result
    }
}

/// Whether something did not finish in time.
fn is_late(result: &Result<()>) -> bool {
    matches!(result, Err(Error::Timeout { .. }))
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.label())
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Device {}
