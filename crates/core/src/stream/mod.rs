//! Streams: in-order timelines that any thread may use.

mod current;
mod dependencies;
mod event;
mod future;
mod guard;
mod inner;
mod large_upload;
mod lease;
mod pool;
mod record;
mod run;
mod submit;
mod synchronize;
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
pub(crate) use turn::{thread_number, works_as_user};

use std::fmt;
use std::sync::Arc;

use self::lease::Lease;
use crate::{Buffer, Command, Counters, Device, Plan, Result, plan};

/// An in-order timeline of a device: Commands recorded on it run one after the other.
///
/// Every thread has a current stream per device, leased on first use and returned when the thread ends. Work on
/// different streams runs in parallel. Where one stream uses the results of another, the runtime orders the two.
///
/// On a device whose threads wait for streams ([`Exhaustion::Wait`](crate::Exhaustion::Wait)), a thread can lose a
/// stream that has nothing to submit to a waiting thread, and leases another at its next use. A stream from
/// [`new`](Self::new) stays leased, and so does the stream of an open [`scope`](Self::scope).
///
/// ```
/// # millstream_core::doctest!();
/// use millstream::command::Command;
/// use millstream::memory::Layout;
/// use millstream::{DType, Device, Stream};
///
/// let device = Device::cpu()?;
/// let row = Layout::contiguous(DType::F32, &[4])?;
/// let stream = Stream::new(&device)?;
/// let buffer = stream.allocate(row.dense_bytes())?;
/// stream.record(Command::fill(buffer.operand(row), 1.0f32)?)?; // returns at once
/// stream.synchronize()?; // now it is done
/// # Ok::<(), millstream::Error>(())
/// ```
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
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::{Device, Stream};
    ///
    /// let device = Device::cpu()?;
    /// let stream = Stream::current(&device)?; // the same as device.stream()
    /// assert_eq!(stream.id(), device.stream()?.id());
    /// # Ok::<(), millstream::Error>(())
    /// ```
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

    /// As [`new`](Self::new), if one is free at this moment: neither waits for a stream nor shares one. `None` if all are leased.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::{Device, Stream};
    ///
    /// let device = Device::cpu()?;
    /// if let Some(own) = Stream::try_new(&device)? {
    ///     own.scope(|| println!("on stream {}", own.id()));
    /// }
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Blocks when
    ///
    /// The stream is used for the first time.
    ///
    /// # Errors
    ///
    /// The device is gone.
    pub fn try_new(device: &Device) -> Result<Option<Self>> {
        device.inner().check()?;
        device.inner().pool().try_lease(device.inner())
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

    /// Does `work` as one and the same user of this stream, whichever thread does it: for threads that take turns on a stream, one at
    /// a time. The memory that it takes, on the device and pinned on the host, is that of the work before, so that a device can
    /// replay its batches. Otherwise memory stays with the thread that had it.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::{Device, Stream};
    ///
    /// # fn main() -> millstream::Result<()> {
    /// let own = Stream::new(&Device::cpu()?)?;
    /// let buffer = own.as_one_user(|| own.allocate(64))?;
    /// # drop(buffer);
    /// # Ok(())
    /// # }
    /// ```
    pub fn as_one_user<R>(&self, work: impl FnOnce() -> R) -> R {
        turn::work_as(std::ptr::from_ref(self.inner).addr(), work)
    }

    /// Makes this the calling thread's current stream until it ends or another one is made current. Meanwhile the
    /// stream is pinned to its holder.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::{Device, Stream};
    ///
    /// let device = Device::cpu()?;
    /// let own = Stream::new(&device)?;
    /// own.make_current();
    /// assert_eq!(device.stream()?.id(), own.id());
    /// # Ok::<(), millstream::Error>(())
    /// ```
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
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::Device;
    ///
    /// let buffer = Device::cpu()?.stream()?.allocate(64)?;
    /// assert!(buffer.bytes() >= 64);
    /// # Ok::<(), millstream::Error>(())
    /// ```
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

    /// Records all Commands of a plan, with these buffers as its inputs and outputs. Temporary values lie in memory
    /// that no other run uses meanwhile. Gives the timepoint of the last Command.
    ///
    /// # Blocks when
    ///
    /// As for [`record`](Self::record), and until the device is idle if there is no memory for the temporary values.
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

    /// The counters of the stream.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::Device;
    ///
    /// let stream = Device::cpu()?.stream()?;
    /// println!("{} Commands recorded", stream.counters().commands);
    /// # Ok::<(), millstream::Error>(())
    /// ```
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
