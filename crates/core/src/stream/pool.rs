//! The bounded pool of a device's streams, and leases on them.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::inner::Recorder;
use super::lease::{Hold, Lease, Shared, ThreadLease};
use super::{Stream, StreamInner};
use crate::device::DeviceInner;
use crate::sync::schedule::{AtomicU32, Mutex, Ordering, PoisonError};
use crate::sync::{Affinity, FairPool, Slots};
use crate::{Error, Exhaustion, Result};

/// How many more streams than can run at the same time are checked for an idle one.
const EXTRA_CANDIDATES: usize = 2;

/// How long the first in line for a stream waits before it looks for idle ones again; longer every time, up to the
/// second.
const RECLAIM_PAUSE: Duration = Duration::from_millis(10);
const MAX_RECLAIM_PAUSE: Duration = Duration::from_millis(80);

/// A device's streams. Slot 0 is the default stream; the others are leased.
///
/// Streams are made on first use and live as long as the device, so a reference to one never dangles.
pub(crate) struct StreamPool {
    streams: Box<[OnceLock<StreamInner>]>,
    /// Taken to make a stream; a slow path.
    making: Mutex<()>,
    /// Slot `i` here is stream `i + 1`.
    leases: FairPool<Slots>,
    /// Who has which slot; `i` as in `leases`.
    slots: Box<[Slot]>,
    next_shared: AtomicU32,
}

/// Aligned, so that threads that check their own slots share no cache line.
#[repr(align(64))]
#[derive(Default)]
struct Slot(Affinity);

impl StreamPool {
    pub fn new(streams: u32) -> Self {
        Self {
            streams: (0..streams).map(|_| OnceLock::new()).collect(),
            making: Mutex::new(()),
            leases: FairPool::slots(streams - 1),
            slots: (1..streams).map(|_| Slot::default()).collect(),
            next_shared: AtomicU32::new(0),
        }
    }

    /// The streams that were ever used.
    pub fn created(&self) -> impl Iterator<Item = &StreamInner> {
        self.streams.iter().filter_map(OnceLock::get)
    }

    fn stream(
        &'static self,
        id: u32,
        device: &'static DeviceInner,
    ) -> Result<&'static StreamInner> {
        let cell = &self.streams[id as usize];
        if let Some(stream) = cell.get() {
            return Ok(stream);
        }
        let making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if cell.get().is_none() {
            let stream = match StreamInner::new(id, device) {
                Ok(stream) => stream,
                Err(error) => {
                    drop(making);
                    device.note_error(&error);
                    return Err(error);
                }
            };
            // Only set here, under the lock, after it was found empty.
            device.lose_if_lost(cell.get_or_init(|| stream));
        }
        Ok(cell.get().expect("the stream was just made"))
    }

    pub fn default_stream(&'static self, device: &'static DeviceInner) -> Result<Stream> {
        Ok(Stream { inner: self.stream(0, device)?, _lease: None })
    }

    /// The stream of a thread that has none: the default stream for the main thread, else one that is its own
    /// for as long as nobody needs it more.
    pub(super) fn lease_for_thread(
        &'static self,
        device: &'static DeviceInner,
    ) -> Result<(&'static StreamInner, Hold)> {
        if is_main_thread() {
            return Ok((self.stream(0, device)?, Hold::Nothing));
        }
        Ok(match self.take(device)? {
            Taken::Slot(stream, slot) => {
                (stream, Hold::Affinity(ThreadLease::begin(stream, &self.slots[slot as usize].0)))
            }
            Taken::Shared(stream) => {
                (stream, Hold::Lease(Arc::new(Lease::Shared { _share: Shared::new(stream) })))
            }
        })
    }

    /// An idle stream, for a thread that has one. Checks as many as can run at the same time and a few more, so that
    /// calls do not spread over the memory of all streams. Never waits.
    pub(super) fn lease_idle(
        &'static self,
        device: &'static DeviceInner,
    ) -> Option<(&'static StreamInner, Hold)> {
        let candidates = device.parallelism() + EXTRA_CANDIDATES;
        let mut busy = SmallVec::<[u32; 16]>::new();
        let mut idle = None;
        while idle.is_none()
            && busy.len() < candidates
            && let Some(slot) = self.leases.try_take()
        {
            match self.stream(slot + 1, device) {
                Ok(stream) if stream.is_idle() => idle = Some((stream, slot)),
                _ => busy.push(slot),
            }
        }
        busy.into_iter().for_each(|slot| self.leases.put(slot));
        let (stream, slot) = idle?;
        Some((stream, Hold::Affinity(ThreadLease::begin(stream, &self.slots[slot as usize].0))))
    }

    /// A stream that is the caller's until the last clone of the handle is dropped.
    pub fn lease(&'static self, device: &'static DeviceInner) -> Result<Stream> {
        let (inner, lease) = match self.take(device)? {
            Taken::Slot(stream, slot) => (stream, Lease::Own { stream, slot }),
            Taken::Shared(stream) => (stream, Lease::Shared { _share: Shared::new(stream) }),
        };
        Ok(Stream { inner, _lease: Some(Arc::new(lease)) })
    }

    /// As [`lease`](Self::lease), of a stream that is free now. `None` if there is none.
    pub fn try_lease(&'static self, device: &'static DeviceInner) -> Result<Option<Stream>> {
        let Some(slot) = self.leases.try_take() else { return Ok(None) };
        let stream = self.made(slot, device)?;
        let lease = Lease::Own { stream, slot };
        Ok(Some(Stream { inner: stream, _lease: Some(Arc::new(lease)) }))
    }

    fn take(&'static self, device: &'static DeviceInner) -> Result<Taken> {
        let started = Instant::now();
        let slot = match (self.leases.try_take(), device.config().exhaustion) {
            (Some(slot), _) => Some(slot),
            (None, Exhaustion::Share) => return self.share(device).map(Taken::Shared),
            (None, Exhaustion::Fail) => None,
            (None, Exhaustion::Wait(time)) if self.streams.len() > 1 => {
                let deadline = time.and_then(|time| started.checked_add(time));
                let mut seen = vec![None; self.slots.len()];
                let pause =
                    |_, checks: u32| (RECLAIM_PAUSE * (1 << checks.min(3))).min(MAX_RECLAIM_PAUSE);
                self.leases.take_with(deadline, pause, || self.reclaim_idle(&mut seen))
            }
            (None, Exhaustion::Wait(_)) => None,
        };
        let Some(slot) = slot else {
            return Err(Error::StreamsExhausted {
                device: device.name().to_owned(),
                streams: self.streams.len() - 1,
                waited: started.elapsed(),
            });
        };
        Ok(Taken::Slot(self.made(slot, device)?, slot))
    }

    /// The stream of a slot that was taken. Without it the slot is put back.
    fn made(
        &'static self,
        slot: u32,
        device: &'static DeviceInner,
    ) -> Result<&'static StreamInner> {
        self.stream(slot + 1, device).inspect_err(|_| self.leases.put(slot))
    }

    /// A stream that others use too, round-robin.
    fn share(&'static self, device: &'static DeviceInner) -> Result<&'static StreamInner> {
        let others = self.streams.len() as u32 - 1;
        let turn = self.next_shared.fetch_add(1, Ordering::Relaxed);
        let id = if others == 0 { 0 } else { 1 + turn % others };
        self.stream(id, device)
    }

    /// Gives idle streams to waiting threads. `seen` has the epochs of streams that were leased and not used yet at
    /// the last call: a thread that has just leased a stream is about to use it, and keeps it until the next call.
    fn reclaim_idle(&self, seen: &mut [Option<u32>]) {
        for (slot, seen) in seen.iter_mut().enumerate() {
            let Some(stream) = self.streams[slot + 1].get() else { continue };
            let affinity = &self.slots[slot].0;
            let recorder = stream.lock();
            let Some((epoch, used)) = affinity.idle(recorder.recorded) else { continue };
            if !is_idle(&recorder) {
                continue;
            }
            if used || *seen == Some(epoch) {
                self.hand_on(slot as u32);
            }
            *seen = Some(epoch);
        }
    }

    /// Hands a stream with nothing to submit to a waiting thread, unless it is pinned. The caller holds the stream's
    /// lock. A thread that begins to wait checks the stream under that lock after it has joined the queue, so one of
    /// the two sees the other. Takes no lock of another stream.
    #[inline]
    pub fn offer(&self, stream: &StreamInner, recorder: &Recorder) {
        if self.leases.has_waiters() && stream.id() != 0 && is_idle(recorder) {
            self.hand_on(stream.id() - 1);
        }
    }

    fn hand_on(&self, slot: u32) {
        if self.slots[slot as usize].0.end() {
            self.leases.put(slot);
        }
    }

    /// Frees the caller's slot, or gives it to the first waiter.
    pub(super) fn put_back(&self, slot: u32) {
        self.leases.put(slot);
    }

    /// Who has a stream; `None` for the default stream, which nobody has for itself.
    pub(super) fn affinity(&self, stream: &StreamInner) -> Option<&Affinity> {
        Some(&self.slots.get((stream.id() as usize).checked_sub(1)?)?.0)
    }

    /// How many slots can be leased now.
    pub fn free(&self) -> u32 {
        self.leases.free_word().count_ones()
    }
}

fn is_idle(recorder: &Recorder) -> bool {
    recorder.batch.is_empty() && recorder.waits.is_empty()
}

/// What a thread that needs a stream gets.
enum Taken {
    Slot(&'static StreamInner, u32),
    Shared(&'static StreamInner),
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_main_thread() -> bool {
    // SAFETY: both calls have no preconditions.
    unsafe { libc::getpid() == libc::gettid() }
}

#[cfg(target_vendor = "apple")]
fn is_main_thread() -> bool {
    // SAFETY: the call has no preconditions.
    unsafe { libc::pthread_main_np() != 0 }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn is_main_thread() -> bool {
    std::thread::current().name() == Some("main")
}
