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

/// An in-order timeline of a device: commands recorded on it run one after the other.
///
/// Every thread has a current stream per device, leased on first use and given back when the thread
/// ends. Work on different streams runs at the same time; where one stream uses what another one makes,
/// the order comes by itself.
///
/// On a device whose threads wait for streams ([`Exhaustion::Wait`](crate::Exhaustion::Wait)) that is an
/// affinity, not a bond: a stream with nothing to submit goes to who waits for one, and its thread leases again at
/// its next use. [`new`](Self::new) gives a stream that stays, and so does an open [`scope`](Self::scope).
///
/// # Thread safety
///
/// A stream may be used by several threads at once. Each call is atomic; the order between threads is
/// the order of their calls.
#[derive(Clone)]
pub struct Stream {
    inner: &'static StreamInner,
    /// Keeps the stream leased, or counts as a share of it; the last clone gives it back. None for a handle that
    /// keeps nothing.
    _lease: Option<Arc<Lease>>,
}

impl Stream {
    /// The calling thread's current stream of a device, leased on first use.
    ///
    /// The handle does not keep the stream for the thread. Kept for longer, it may name one that another thread
    /// has leased meanwhile, which is safe, as sharing is. Where operations that do not use each other's results
    /// must come in order, or one `synchronize` is to cover several of them, a stream of one's own
    /// ([`new`](Self::new)) is the right thing, with a [`scope`](Self::scope) around them.
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

    /// The calling thread's current stream, for the length of one operation: a handle that keeps no lease at all,
    /// not even that of a scope, and costs nothing to drop.
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

    /// Runs `work` with this stream as the calling thread's current stream. Meanwhile the stream stays with
    /// whoever has it.
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
    /// stream stays with whoever has it.
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

    /// Memory whose home is this stream. What is read of it before it is written is zero.
    ///
    /// # Blocks when
    ///
    /// Memory is short: it waits until the device is idle, or until memory is given back that is on its way.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory), after everything that can be given back was;
    /// or the device is gone.
    pub fn allocate(&self, bytes: usize) -> Result<Buffer> {
        crate::memory::allocate(self.inner, bytes)
    }

    /// Waits, without a thread, until recording here does not block: until half of what may be in flight is free.
    /// That is room for at least half of `in_flight` batches of `batch_commands` Commands (see
    /// [`Config`](crate::Config)) for whoever records next. From async code, await it before every call, and
    /// record what belongs to the call before the next `await`.
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
    /// As many batches are in flight as may be; [`ready`](Self::ready) awaits that there are fewer. On the CPU device
    /// the thread is put to work meanwhile. Also when the Command uses what another stream made and has not
    /// submitted, and that stream is full; for half a millisecond when another thread is in the middle of a batch on a
    /// stream that they share; and on a GPU when a batch is submitted whose kernels have to be compiled first.
    ///
    /// # Errors
    ///
    /// An operand that another device owns, an output that is settled, an operation the device does not have,
    /// a timeout when too much is in flight, or a device that is gone. After an error nothing was recorded.
    /// That an operand has failed, or will, is no error here: the values that the Command should make fail
    /// with it, and whoever reads them gets the error.
    #[inline]
    pub fn record(&self, mut command: Command<&Buffer>) -> Result<Timepoint> {
        self.record_from(&mut command)
    }

    /// Like [`record`](Self::record), for a Command that lies somewhere already: a Command is large, and this
    /// spares a copy of it. It is of no use afterwards.
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
    /// of this stream, which nobody else sees. The point is that of the last Command.
    ///
    /// # Blocks when
    ///
    /// As for [`record`](Self::record).
    ///
    /// # Errors
    ///
    /// Other buffers than the plan needs: their number, their size, one of another device, an output that is
    /// settled or given twice; no memory for the temporary values; or as for [`record`](Self::record). After an
    /// error nothing was recorded, but for a plan of more Commands than a batch takes: of that the first ones
    /// may have been.
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

    /// The point that everything recorded so far has passed when it has finished.
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

    /// A copy of some bytes, for [`Command::upload`] on this stream: in memory that its device reads by
    /// itself where that gains, so that the upload copies nothing more, however often it is repeated.
    pub fn host_copy_of(&self, bytes: &[u8]) -> HostBytes {
        transfer::host_copy_of(self, bytes)
    }

    /// Elements that `write` writes, in memory as for [`host_copy_of`](Self::host_copy_of): for callers
    /// that make what they upload, and need not copy it. `write` finds zeros there. It is not called where
    /// there is no memory: then the bytes are not [backed](HostBytes::is_backed), and no Command takes them.
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

    /// Waits for the elements of `src` on the host, as they lie in memory.
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

    /// What the stream did so far.
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
