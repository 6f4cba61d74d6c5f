//! What keeps a stream for somebody, and how it is given back.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::StreamInner;
use crate::sync::Affinity;

/// What an entry in a thread's list of current streams keeps.
pub(super) enum Hold {
    /// The default stream, which is everybody's.
    Nothing,
    /// A lease, or a share in somebody else's stream.
    Lease(Arc<Lease>),
    /// The stream that a thread uses by default.
    Affinity(Tenure),
    /// A stream of whoever has it, which stays with that one meanwhile.
    Pin { _pin: Pin },
}

/// The right to call a stream one's own, until it is dropped.
pub(super) enum Lease {
    Own { stream: &'static StreamInner, slot: u32 },
    Shared { _share: Shared },
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Lease::Own { stream, slot } = *self
            && !stream.device_inner().is_inherited()
        {
            submit_left_over(stream);
            forget_waits(stream);
            stream.device_inner().pool().put_back(slot);
        }
    }
}

/// Counts among those who use a stream that is another's.
pub(super) struct Shared(&'static StreamInner);

impl Shared {
    pub fn new(stream: &'static StreamInner) -> Self {
        stream.counters().shares.fetch_add(1, Ordering::Relaxed);
        stream.counters().sharers.fetch_add(1, Ordering::Relaxed);
        Self(stream)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.0.counters().sharers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A thread's affinity to a stream. Where threads wait for streams, it ends when the stream has nothing to
/// submit and somebody waits.
pub(super) struct Tenure {
    stream: &'static StreamInner,
    affinity: &'static Affinity,
    epoch: u32,
}

impl Tenure {
    pub fn begin(stream: &'static StreamInner, affinity: &'static Affinity) -> Self {
        Self { stream, affinity, epoch: affinity.begin(stream.recorded()) }
    }

    /// Whether the stream is still the thread's.
    #[inline]
    pub fn lasts(&self) -> bool {
        self.affinity.is(self.epoch)
    }
}

impl Drop for Tenure {
    fn drop(&mut self) {
        if self.stream.device_inner().is_inherited() {
            return;
        }
        submit_left_over(self.stream);
        if self.affinity.leave(self.epoch) {
            forget_waits(self.stream);
            self.stream.device_inner().pool().put_back(self.stream.id() - 1);
        }
    }
}

/// Keeps a stream with whoever has it: an open scope on a handle that is no lease.
pub(super) struct Pin {
    stream: &'static StreamInner,
    affinity: &'static Affinity,
}

impl Pin {
    /// `None` for the default stream, which cannot be lost.
    pub fn new(stream: &'static StreamInner) -> Option<Self> {
        let affinity = stream.device_inner().pool().affinity(stream)?;
        affinity.pin();
        Some(Self { stream, affinity })
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let device = self.stream.device_inner();
        if device.is_inherited() {
            return;
        }
        let recorder = self.stream.lock();
        if self.affinity.unpin() {
            device.pool().put_back(self.stream.id() - 1);
        } else {
            device.pool().offer(self.stream, &recorder);
        }
    }
}

/// Others may hold results that are not submitted yet; better now than when they ask.
fn submit_left_over(stream: &'static StreamInner) {
    if stream.device_inner().check().is_ok() {
        stream.flush_if_room();
    }
}

/// What the next Command was to wait for does not concern whoever has the stream next.
fn forget_waits(stream: &'static StreamInner) {
    let mut recorder = stream.lock();
    if recorder.batch.is_empty() && !stream.is_shared() {
        recorder.waits.clear();
    }
}
