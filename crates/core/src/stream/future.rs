//! Waiting without a thread: futures of timepoints and downloads, and of room for recording.
//!
//! A future keeps a waker in its stream's progress and takes it out when it is dropped. Nothing is kept of it
//! then; the work goes on. Whoever polls submits what is to be waited for, and the device's own threads run it.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::transfer::Download;
use super::{Stream, StreamInner, Timepoint, current};
use crate::sync::Ticket;
use crate::sync::waker_queue::Position;
use crate::{Device, Result};

/// A waker in the progress of a stream, for as long as it lives.
#[derive(Default)]
struct Waiting {
    stream: Option<&'static StreamInner>,
    ticket: Ticket,
}

impl Waiting {
    /// Whether a submitted sequence number has passed. If not, the waker is called when it has.
    fn poll(&mut self, stream: &'static StreamInner, until: u64, waker: &Waker) -> Result<bool> {
        if self.stream.is_some_and(|known| !std::ptr::eq(known, stream)) {
            self.end();
        }
        self.stream = Some(stream);
        if stream.progress().poll_passed(until, &mut self.ticket, waker) {
            return Ok(true);
        }
        // Only now: the queue sees that somebody waits.
        let watched = stream.queue().watch(until);
        watched.inspect_err(|error| stream.device_inner().note_error(error))?;
        Ok(false)
    }

    fn end(&mut self) {
        // After a fork the parent's locks may be held by threads that do not exist here.
        if let Some(stream) = self.stream.take()
            && !stream.device_inner().is_inherited()
        {
            stream.progress().forget(&mut self.ticket);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.end();
    }
}

/// Whether a point has passed, be it done or failed.
fn poll_passed(point: Timepoint, waiting: &mut Waiting, waker: &Waker) -> Poll<Result<()>> {
    let passed = poll_once(point, waiting, waker);
    if matches!(passed, Ok(false)) {
        return Poll::Pending;
    }
    waiting.end();
    Poll::Ready(passed.map(drop))
}

fn poll_once(point: Timepoint, waiting: &mut Waiting, waker: &Waker) -> Result<bool> {
    let (stream, device) = (point.stream(), point.stream().device_inner());
    device.check()?;
    loop {
        if stream.progress().completed() >= point.sequence() {
            return Ok(true);
        }
        if let Some(error) = stream.progress().lost() {
            if device.check().is_ok() {
                // A thread of the device has noticed it; it was not reported yet.
                device.note_error(&error);
            }
            return Err(error);
        }
        let until = stream.submit_for_task(point.sequence())?;
        if !waiting.poll(stream, until, waker)? {
            return Ok(false);
        }
    }
}

/// Waits until a [`Timepoint`] has passed, as [`Timepoint::wait`] does, without a thread.
///
/// Dropping it cancels the waiting and nothing else: the work goes on. It has no deadline of its own; executors
/// have timeouts.
///
/// # Thread safety
///
/// It may be polled by any thread, of any executor.
#[must_use = "futures do nothing unless awaited"]
pub struct TimepointFuture {
    point: Timepoint,
    waiting: Waiting,
}

impl std::fmt::Debug for TimepointFuture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TimepointFuture").field("point", &self.point).finish_non_exhaustive()
    }
}

impl Future for TimepointFuture {
    /// As for [`Timepoint::wait`].
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let point = self.point;
        let passed = poll_passed(point, &mut self.waiting, context.waker());
        passed.map(|passed| passed.and_then(|()| point.reported()))
    }
}

/// `point.await` waits as [`Timepoint::wait`] does, but no thread is held. The first poll submits the work.
impl IntoFuture for Timepoint {
    type Output = Result<()>;
    type IntoFuture = TimepointFuture;

    fn into_future(self) -> TimepointFuture {
        TimepointFuture { point: self, waiting: Waiting::default() }
    }
}

/// Waits until the elements of a [`Download`] have arrived, without a thread.
///
/// Dropping it cancels the waiting: the memory goes back when the device is through with it. It has no deadline
/// of its own; executors have timeouts.
///
/// # Thread safety
///
/// It may be polled by any thread, of any executor.
#[must_use = "futures do nothing unless awaited"]
pub struct DownloadFuture {
    /// None when it was handed over.
    download: Option<Download>,
    waiting: Waiting,
}

impl std::fmt::Debug for DownloadFuture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DownloadFuture").field("download", &self.download).finish_non_exhaustive()
    }
}

impl Future for DownloadFuture {
    /// The download, of which nothing blocks any more; or the error that [`Download::read`] would give.
    type Output = Result<Download>;

    /// Pending for ever after it was ready.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Download>> {
        let this = &mut *self;
        let Some(download) = &this.download else { return Poll::Pending };
        let passed = poll_passed(download.timepoint(), &mut this.waiting, context.waker());
        let Poll::Ready(passed) = passed else { return Poll::Pending };
        let download = this.download.take();
        match passed.and_then(|()| download.map_or(Ok(None), |d| d.written().map(|()| Some(d)))) {
            Ok(Some(download)) => Poll::Ready(Ok(download)),
            Ok(None) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

/// `download.await` gives the download back when its elements have arrived, so that reading them does not block.
/// The first poll submits the work.
///
/// ```
/// # millstream_core::doctest!();
/// use millstream::command::Command;
/// use millstream::memory::Layout;
/// use millstream::{DType, Device, Result, Stream};
/// async fn sum(stream: &Stream) -> Result<f32> {
///     stream.ready().await?; // room for what is recorded until the next `await`
///     let layout = Layout::contiguous(DType::F32, &[4])?;
///     let buffer = stream.allocate(layout.dense_bytes())?;
///     stream.record(Command::fill(buffer.operand(layout), 1.0f32)?)?;
///     let download = stream.download(buffer.operand(layout))?.await?;
///     Ok(download.view::<f32>()?.iter().sum())
/// }
/// # let device = Device::cpu().unwrap();
/// # let stream = device.stream().unwrap();
/// # let mut future = std::pin::pin!(sum(&stream));
/// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// # while future.as_mut().poll(&mut context).is_pending() {}
/// ```
impl IntoFuture for Download {
    type Output = Result<Download>;
    type IntoFuture = DownloadFuture;

    fn into_future(self) -> DownloadFuture {
        DownloadFuture { download: Some(self), waiting: Waiting::default() }
    }
}

/// Waits until recording does not block; see [`Stream::ready`] and [`Device::ready`].
///
/// Tasks that wait for one stream go on in the order of arrival. Dropping the future leaves the queue.
#[must_use = "futures do nothing unless awaited"]
pub struct Ready {
    target: Target,
    /// The stream whose queue the task is in.
    waits_at: Option<&'static StreamInner>,
    position: Position,
    waiting: Waiting,
}

impl std::fmt::Debug for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ready").finish_non_exhaustive()
    }
}

enum Target {
    /// Kept with its lease.
    Stream(Stream),
    /// Whichever stream the polling thread has.
    Current(Device),
}

impl Ready {
    pub(super) fn of_stream(stream: Stream) -> Self {
        Self::new(Target::Stream(stream))
    }

    pub(crate) fn of_device(device: Device) -> Self {
        Self::new(Target::Current(device))
    }

    fn new(target: Target) -> Self {
        Self { target, waits_at: None, position: Position::default(), waiting: Waiting::default() }
    }

    fn poll_once(&mut self, waker: &Waker) -> Result<bool> {
        let stream = match &self.target {
            Target::Stream(stream) => stream.inner(),
            Target::Current(device) => {
                current::move_to_idle(device.inner());
                Stream::current_unleased(device)?.inner()
            }
        };
        stream.device_inner().check()?;
        if self.waits_at.is_some_and(|known| !std::ptr::eq(known, stream)) {
            // The task has come to another thread.
            self.leave();
        }
        let queue = stream.ready_waiters();
        if self.waits_at.is_none() && !queue.is_occupied() && stream.is_ample().is_ok() {
            return Ok(true);
        }
        self.waits_at = Some(stream);
        if !queue.poll(&mut self.position, waker) {
            return Ok(false);
        }
        loop {
            let Err(until) = stream.is_ample() else { return Ok(true) };
            if !self.waiting.poll(stream, until, waker)? {
                return Ok(false);
            }
        }
    }

    fn leave(&mut self) {
        self.waiting.end();
        if let Some(stream) = self.waits_at.take()
            && !stream.device_inner().is_inherited()
        {
            stream.ready_waiters().leave(&mut self.position);
        }
    }
}

impl Future for Ready {
    /// An error if the device is gone, or if it has no stream for the thread.
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let polled = self.poll_once(context.waker());
        if matches!(polled, Ok(false)) {
            return Poll::Pending;
        }
        self.leave();
        Poll::Ready(polled.map(drop))
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        self.leave();
    }
}
