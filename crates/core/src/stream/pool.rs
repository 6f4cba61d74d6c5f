//! The bounded pool of a device's streams, and leases on them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use super::{Stream, StreamInner};
use crate::device::DeviceInner;
use crate::sync::{FairPool, Slots};
use crate::{Error, Exhaustion, Result};

/// A device's streams. Slot 0 is the default stream; the others are leased.
///
/// Streams are made on first use and live as long as the device, so a reference to one never dangles.
pub(crate) struct StreamPool {
    streams: Box<[OnceLock<StreamInner>]>,
    /// Taken to make a stream; a slow path.
    making: Mutex<()>,
    /// Slot `i` here is stream `i + 1`.
    leases: FairPool<Slots>,
    next_shared: AtomicU32,
}

/// The right to call a stream one's own. Dropping it gives the slot back.
pub(super) struct Lease {
    stream: &'static StreamInner,
    slot: u32,
}

impl StreamPool {
    pub fn new(streams: u32) -> Self {
        Self {
            streams: (0..streams).map(|_| OnceLock::new()).collect(),
            making: Mutex::new(()),
            leases: FairPool::slots(streams - 1),
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
        let _making = self.making.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if cell.get().is_none() {
            let stream =
                StreamInner::new(id, device).inspect_err(|error| device.note_error(error))?;
            // Only set here, under the lock, after a look that found it empty.
            let _ = cell.set(stream);
        }
        Ok(cell.get().expect("the stream was just made"))
    }

    pub fn default_stream(&'static self, device: &'static DeviceInner) -> Result<Stream> {
        Ok(Stream { inner: self.stream(0, device)?, _lease: None })
    }

    /// The stream of a thread that has none: the default stream for the main thread, else a lease.
    pub fn lease_for_thread(&'static self, device: &'static DeviceInner) -> Result<Stream> {
        if is_main_thread() { self.default_stream(device) } else { self.lease(device) }
    }

    pub fn lease(&'static self, device: &'static DeviceInner) -> Result<Stream> {
        let started = Instant::now();
        let slot = match (self.leases.try_take(), device.config().exhaustion) {
            (Some(slot), _) => Some(slot),
            (None, Exhaustion::Share) => return self.share(device),
            (None, Exhaustion::Fail) => None,
            (None, Exhaustion::Wait(time)) if self.streams.len() > 1 => {
                self.leases.take(time.and_then(|time| started.checked_add(time)))
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
        match self.stream(slot + 1, device) {
            Ok(stream) => {
                let lease = Arc::new(Lease { stream, slot });
                Ok(Stream { inner: stream, _lease: Some(lease) })
            }
            Err(error) => {
                self.leases.put(slot);
                Err(error)
            }
        }
    }

    /// A stream that others use too, in turn.
    fn share(&'static self, device: &'static DeviceInner) -> Result<Stream> {
        let others = self.streams.len() as u32 - 1;
        let turn = self.next_shared.fetch_add(1, Ordering::Relaxed);
        let id = if others == 0 { 0 } else { 1 + turn % others };
        let inner = self.stream(id, device)?;
        inner.counters().shares.fetch_add(1, Ordering::Relaxed);
        Ok(Stream { inner, _lease: None })
    }

    /// How many slots can be leased now.
    pub fn free(&self) -> u32 {
        self.leases.free_word().count_ones()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let device = self.stream.device_inner();
        if device.is_inherited() {
            return;
        }
        // Others may hold results that are not submitted yet; better now than when they ask.
        if device.check().is_ok() {
            self.stream.flush_if_room();
        }
        device.pool().leases.put(self.slot);
    }
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
