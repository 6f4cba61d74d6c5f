//! Streams: in-order timelines that any thread may use.

mod current;
mod event;
mod future;
mod guard;
mod inner;
mod lease;
mod pool;
mod record;
mod run;
mod submit;
mod timepoint;
mod transfer;
mod turn;

pub use event::Event;
pub use future::{DownloadFuture, Ready, TimepointFuture};
pub(crate) use inner::{Recorder, StreamInner};
pub(crate) use pool::StreamPool;
pub(crate) use record::clear_rest;
pub(crate) use submit::{Deadline, Reason};
pub use timepoint::Timepoint;
pub use transfer::Download;
pub(crate) use turn::thread_number;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::lease::Lease;
use crate::{Buffer, Command, Counters, Device, Element, HostBytes, Operand, Plan, Result, plan};

/// An in-order timeline of a device: Commands recorded on it run one after the other.
///
/// Every thread has a current stream per device, leased on first use and returned when the thread ends. Work on
/// different streams runs in parallel. Where one stream uses the results of another, the runtime orders the two.
///
/// On a device whose threads wait for streams ([`Exhaustion::Wait`](crate::Exhaustion::Wait)), a thread can lose a
/// stream that has nothing to submit to a waiting thread, and leases another at its next use. A stream from
/// [`new`](Self::new) stays leased, and so does the stream of an open [`scope`](Self::scope).
///
/// # Thread safety
///
/// A stream may be used by several threads at once. Each call is atomic; the order between threads is
/// the order of their calls.
#[derive(Clone)]
pub struct Stream {
    inner: &'static StreamInner,
    /// The lease of the stream, or a share of it; the last clone returns it. None for a handle without a lease.
    _lease: Option<Arc<Lease>>,
}

impl Stream {
    /// The calling thread's current stream of a device, leased on first use.
    ///
    /// The handle does not keep the stream for the thread: later, another thread may have leased it. Using it is
    /// still safe, as sharing a stream is. To keep the order of operations that do not use each other's results, or
    /// to cover several of them with one `synchronize`, lease a stream ([`new`](Self::new)) and use it in a
    /// [`scope`](Self::scope).
    ///
    /// # Blocks when
    ///
    /// All streams are leased and the device is set to wait for one, or the stream is used for the first time.
    ///
    /// # Errors
    ///
    /// No stream is left and the device is not set to share, or the device is gone.
    pub fn current(device: &Device) -> Result<Self> {
        current::stream(device.inner())
    }

    /// The calling thread's current stream, for one operation: a handle without a lease, which costs nothing to
    /// drop.
    ///
    /// # Blocks when
    ///
    /// As for [`current`](Self::current).
    ///
    /// # Errors
    ///
    /// As for [`current`](Self::current).
    pub fn current_unleased(device: &Device) -> Result<Self> {
        current::unleased(device.inner())
    }

    /// A stream of its own, leased until the last clone is dropped. When all are leased, the device's
    /// setting decides, as for threads.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::{Device, Stream};
    ///
    /// # fn main() -> millstream::Result<()> {
    /// let device = Device::cpu()?;
    /// let (first, second) = (Stream::new(&device)?, Stream::new(&device)?); // two timelines, side by side
    /// assert_ne!(first.id(), second.id());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Blocks when
    ///
    /// As for [`current`](Self::current).
    ///
    /// # Errors
    ///
    /// No stream is left and the device is not set to share, or the device is gone.
    pub fn new(device: &Device) -> Result<Self> {
        device.inner().check()?;
        device.inner().pool().lease(device.inner())
    }

    /// The default stream, which the main thread uses.
    ///
    /// # Blocks when
    ///
    /// The stream is used for the first time.
    ///
    /// # Errors
    ///
    /// The device is gone.
    pub fn default_of(device: &Device) -> Result<Self> {
        device.inner().check()?;
        device.inner().pool().default_stream(device.inner())
    }

    /// Runs `work` with this stream as the calling thread's current stream. Meanwhile the stream
    /// is pinned to its holder.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::{Device, Stream};
    ///
    /// # fn main() -> millstream::Result<()> {
    /// let device = Device::cpu()?;
    /// let own = Stream::new(&device)?;
    /// // Tensors and layers record on this stream inside.
    /// own.scope(|| assert_eq!(device.stream().map(|stream| stream.id()), Ok(own.id())));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "torch.cuda.stream")]
    pub fn scope<R>(&self, work: impl FnOnce() -> R) -> R {
        current::scope(self, work)
    }

    /// Makes this the calling thread's current stream until it ends or another one is made current. Meanwhile the
    /// stream is pinned to its holder.
    pub fn make_current(&self) {
        current::replace(self);
    }

    /// The number of the stream within its device; 0 is the default stream.
    pub fn id(&self) -> u32 {
        self.inner.id()
    }

    /// The device.
    pub fn device(&self) -> Device {
        self.inner.device()
    }

    /// Allocates memory whose home is this stream. It reads as zeros until it is written.
    ///
    /// # Blocks when
    ///
    /// Memory is short: it waits until the device is idle, or until pending frees have finished.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory), after all reclaim steps; or the device is gone.
    pub fn allocate(&self, bytes: usize) -> Result<Buffer> {
        crate::memory::allocate(self.inner, bytes)
    }

    /// Waits, without a thread, until recording here does not block: until half of the in-flight limit is free. Then
    /// there is room for `in_flight / 2` batches of `batch_commands` Commands (see [`Config`](crate::Config)). In
    /// async code, await it before every call, and record the whole call before the next `await`.
    pub fn ready(&self) -> Ready {
        Ready::of_stream(self.clone())
    }

    /// Records a Command. It runs after everything recorded here before, and after what other streams
    /// have recorded that it depends on.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::command::Command;
    /// use millstream::memory::Layout;
    /// use millstream::{DType, Device};
    ///
    /// # fn main() -> millstream::Result<()> {
    /// let stream = Device::cpu()?.stream()?;
    /// let layout = Layout::contiguous(DType::F32, &[4])?;
    /// let buffer = stream.allocate(layout.dense_bytes())?;
    ///
    /// let point = stream.record(Command::fill(buffer.operand(layout), 1.0f32)?)?; // gathered, not run yet
    /// point.wait()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Blocks when
    ///
    /// - The in-flight limit is reached; [`ready`](Self::ready) awaits room. On the CPU device the thread executes work
    ///   meanwhile.
    /// - The Command uses unsubmitted results of another stream, and that stream is full.
    /// - Another thread is recording a batch on a stream that they share: for half a millisecond at most.
    /// - On a GPU, the batch is submitted and its kernels have to be compiled first.
    ///
    /// # Errors
    ///
    /// An operand that another device owns, an output that is settled, an operation the device does not have,
    /// a timeout when too much is in flight, or a device that is gone. After an error nothing was recorded.
    /// An operand that has failed, or will, is no error here: the outputs of the Command fail too, and whoever reads
    /// them gets the error.
    #[inline]
    pub fn record(&self, mut command: Command<&Buffer>) -> Result<Timepoint> {
        self.record_from(&mut command)
    }

    /// Like [`record`](Self::record), without moving the Command, which is large. The Command is consumed: it cannot
    /// be used again.
    ///
    /// # Blocks when
    ///
    /// As for [`record`](Self::record).
    ///
    /// # Errors
    ///
    /// As for [`record`](Self::record).
    pub fn record_from(&self, command: &mut Command<&Buffer>) -> Result<Timepoint> {
        plan::note_command(self.inner, command)?;
        record::record(self.inner, command)
    }

    /// Records all Commands of a plan, with these buffers as its inputs and outputs. Temporary values lie in private
    /// memory of this stream. Gives the timepoint of the last Command.
    ///
    /// # Blocks when
    ///
    /// As for [`record`](Self::record).
    ///
    /// # Errors
    ///
    /// Buffers that do not fit the plan: wrong number, size or device, or an output that is settled or given twice;
    /// no memory for the temporary values; or as for [`record`](Self::record). After an error nothing was recorded,
    /// except for a plan of several batches, whose first batches may have been.
    pub fn run(&self, plan: &Plan, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<Timepoint> {
        plan::refuse_traced("run")?;
        run::run(self.inner, plan, inputs, outputs)
    }

    /// Hands everything recorded to the device, without waiting for it.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::Device;
    ///
    /// # fn main() -> millstream::Result<()> {
    /// let stream = Device::cpu()?.stream()?;
    /// // … record …
    /// stream.flush()?; // the device starts on it; nobody waits
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Blocks when
    ///
    /// As for [`record`](Self::record).
    ///
    /// # Errors
    ///
    /// A timeout when too much is in flight, or a device that is gone.
    pub fn flush(&self) -> Result<()> {
        let device = self.inner.device_inner();
        device.check()?;
        self.inner.flush(submit::Reason::Flush, Deadline::usual(device))
    }

    /// Whether everything recorded has finished. Submits what was not, if there is room; never waits.
    ///
    /// # Errors
    ///
    /// The fault of the last command that was recorded here, or a device that is gone.
    pub fn query(&self) -> Result<bool> {
        Timepoint::new(self.inner, self.inner.recorded()).query()
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
        self.inner.synchronize(None)
    }

    /// Like [`synchronize`](Self::synchronize), for at most a given time.
    ///
    /// # Blocks when
    ///
    /// As for [`synchronize`](Self::synchronize).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn synchronize_within(&self, time: Duration) -> Result<()> {
        self.inner.synchronize(Some(time))
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
        record::wait_for(self.inner, point)
    }

    /// The timepoint of everything recorded so far.
    pub fn timepoint(&self) -> Timepoint {
        Timepoint::new(self.inner, self.inner.recorded())
    }

    /// Records a copy of host elements to the device. The elements are copied before this returns.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::memory::Layout;
    /// use millstream::{DType, Device};
    ///
    /// # fn main() -> millstream::Result<()> {
    /// let stream = Device::cpu()?.stream()?;
    /// let layout = Layout::contiguous(DType::F32, &[4])?;
    /// let buffer = stream.allocate(layout.dense_bytes())?;
    ///
    /// stream.upload(buffer.operand(layout), &[1f32, 2.0, 3.0, 4.0])?; // the values are copied: the slice is free
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Blocks when
    ///
    /// As for [`record`](Self::record).
    ///
    /// # Errors
    ///
    /// As for [`record`](Self::record), or another number of elements than `dst` has.
    pub fn upload<T: Element>(&self, dst: Operand<&Buffer>, values: &[T]) -> Result<Timepoint> {
        transfer::upload(self, dst, values)
    }

    /// A copy of some bytes, for [`Command::upload`] on this stream. It lies in pinned memory where that helps, so that
    /// the upload itself copies nothing on the host, however often it is repeated.
    pub fn host_copy_of(&self, bytes: &[u8]) -> HostBytes {
        transfer::host_copy_of(self, bytes)
    }

    /// Elements that `write` writes, in memory as for [`host_copy_of`](Self::host_copy_of), without a copy. The memory
    /// is zeroed before. If there is no memory, `write` is not called, the bytes are not
    /// [backed](HostBytes::is_backed), and no Command takes them.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::command::Command;
    /// use millstream::memory::Layout;
    /// use millstream::{DType, Device};
    /// # fn main() -> millstream::Result<()> {
    /// let device = Device::cpu()?;
    /// let stream = device.stream()?;
    /// let layout = Layout::contiguous(DType::F32, &[1024])?;
    /// let buffer = stream.allocate(layout.dense_bytes())?;
    /// let ramp = stream.host_filled_by(1024, |values: &mut [f32]| {
    ///     values.iter_mut().enumerate().for_each(|(index, value)| *value = index as f32);
    /// });
    /// stream.record(Command::upload(buffer.operand(layout), ramp)?)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn host_filled_by<T: Element>(
        &self,
        elements: usize,
        write: impl FnOnce(&mut [T]),
    ) -> HostBytes {
        transfer::host_filled_by(self, elements, write)
    }

    /// Records a copy of an operand's elements, in row-major order, to the host.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::memory::Layout;
    /// use millstream::{DType, Device};
    ///
    /// # fn main() -> millstream::Result<()> {
    /// let stream = Device::cpu()?.stream()?;
    /// let layout = Layout::contiguous(DType::F32, &[4])?;
    /// let buffer = stream.allocate(layout.dense_bytes())?;
    ///
    /// stream.upload(buffer.operand(layout), &[1f32, 2.0, 3.0, 4.0])?;
    /// let values: Vec<f32> = stream.download(buffer.operand(layout))?.read()?; // waits
    /// # let _ = values;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Blocks when
    ///
    /// As for [`record`](Self::record).
    ///
    /// # Errors
    ///
    /// As for [`record`](Self::record).
    pub fn download(&self, src: Operand<&Buffer>) -> Result<Download> {
        transfer::download(self, src)
    }

    /// Downloads the elements of `src` and waits for them. Gives their bytes.
    ///
    /// # Blocks when
    ///
    /// The elements have not arrived: nearly always.
    ///
    /// # Errors
    ///
    /// As for [`download`](Self::download) and [`Download::bytes`].
    pub fn download_bytes(&self, src: Operand<&Buffer>) -> Result<Vec<u8>> {
        transfer::download_bytes(self, src)
    }

    /// The counters of the stream.
    pub fn counters(&self) -> Counters {
        self.inner.read_counters()
    }

    pub(crate) fn inner(&self) -> &'static StreamInner {
        self.inner
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({} of {})", self.id(), self.device().label())
    }
}
