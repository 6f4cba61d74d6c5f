//! Leases of streams: exclusive, shared, and by thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::StreamInner;
use crate::sync::Affinity;

/// What an entry in a thread's list of current streams holds.
pub(super) enum Hold {
    /// The default stream, which nobody leases.
    Nothing,
    /// A lease, or a share in somebody else's stream.
    Lease(Arc<Lease>),
    /// The stream that a thread uses by default.
    Affinity(ThreadLease),
    /// A stream that another handle leases, and cannot lose while it is pinned.
    Pin { _pin: Pin },
}

/// A lease of a stream. Dropping it frees the stream.
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

/// A share in a stream that somebody else leases.
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

/// The lease of a thread that did not ask for a stream of its own. Where threads wait for streams, it ends when
/// the stream has nothing to submit and another thread waits.
pub(super) struct ThreadLease {
    stream: &'static StreamInner,
    affinity: &'static Affinity,
    epoch: u32,
}

impl ThreadLease {
    pub fn begin(stream: &'static StreamInner, affinity: &'static Affinity) -> Self {
        Self { stream, affinity, epoch: affinity.begin(stream.recorded()) }
    }

    /// Whether the stream is still the thread's.
    #[inline]
    pub fn is_valid(&self) -> bool {
        self.affinity.is(self.epoch)
    }
}

impl Drop for ThreadLease {
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

/// Pins a stream to its holder: an open scope on a handle without a lease.
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

/// Submits what is left, since others may hold results that are not submitted yet.
fn submit_left_over(stream: &'static StreamInner) {
    if stream.device_inner().check().is_ok() {
        stream.flush_if_room();
    }
}

/// Drops the waits for the next Command: they do not concern the next holder of the stream.
fn forget_waits(stream: &'static StreamInner) {
    let mut recorder = stream.lock();
    if recorder.batch.is_empty() && !stream.is_shared() {
        recorder.waits.clear();
    }
}
