//! Host memory for transfers that are small or lie on the heap. (Others are copied directly; see `host.rs`.)
//!
//! A batch has one piece, in which every transfer has an offset. Offsets are computed again by walking the Commands,
//! so they are not stored. A piece is busy from the submit until a thread has seen the batch complete.

use std::sync::Arc;

use millstream_core::sync::Checkout;
use millstream_core::{BoundCommand, HostBytes, Op};

use super::host::{HostBinding, device_address};
use super::segments::Registered;
use crate::failure::Failure;
use crate::platform::{HostVisible, Memory, Platform};

/// Pieces up to this size are kept for later batches: registering host memory takes far longer than most
/// batches.
pub(super) const KEPT_BYTES: usize = 32 << 20;
/// The most bytes of all pieces that are kept.
const KEPT_TOTAL: usize = 64 << 20;
/// The most pieces that are kept: about as many as batches can be in flight.
const KEPT_PIECES: usize = 16;
/// Every transfer begins at a multiple of this.
const ALIGNMENT: usize = 256;

/// One piece.
pub(crate) struct Staging<P: Platform> {
    memory: Registered<P::HostMemory>,
    checkout: Checkout,
}

impl<P: Platform> Staging<P> {
    /// # Errors
    ///
    /// No memory, or the error of the driver.
    pub fn new(platform: &P, bytes: usize) -> Result<Arc<Self>, Failure> {
        let memory = Registered::new(platform.segments(), platform.allocate_host(bytes)?);
        Ok(Arc::new(Self { memory, checkout: Checkout::new() }))
    }

    /// The first byte in the host's address space.
    pub fn host(&self) -> *mut u8 {
        self.memory.memory().host().as_ptr()
    }

    fn bytes(&self) -> usize {
        self.memory.memory().bytes()
    }

    /// The place at an offset in bytes.
    pub fn at(&self, offset: usize) -> HostBinding<P::Segment> {
        let address = self.memory.memory().address() + offset;
        HostBinding { binding: self.memory.binding().offset_by(offset), address }
    }

    /// Whether a batch uses it.
    pub fn is_busy(&self) -> bool {
        self.checkout.is_out()
    }

    /// A batch uses it from here on.
    pub fn occupy(&self) {
        // The caller has seen that nobody uses it.
        let _ = self.checkout.take();
    }

    /// The batch has completed, and its downloads are copied.
    pub fn release(&self) {
        self.checkout.release();
    }
}

/// The offsets of a batch's transfers, one after the other.
#[derive(Default)]
pub(crate) struct StagingLayout {
    next: usize,
}

impl StagingLayout {
    /// Adds a transfer of this size and returns its offset.
    pub fn add(&mut self, bytes: usize) -> usize {
        let offset = self.next;
        self.next += bytes.next_multiple_of(ALIGNMENT);
        offset
    }

    /// The size of all transfers so far.
    pub fn total(&self) -> usize {
        self.next
    }

    /// The place of a transfer's bytes on the device with this number: where they are if the device reaches them,
    /// else in the staging memory. `None` if they need staging memory and there is none.
    pub fn bind<P: Platform>(
        &mut self,
        device: usize,
        host: &HostBytes,
        staging: Option<&Staging<P>>,
    ) -> Option<HostBinding<P::Segment>> {
        if let Some(binding) = super::host::reached::<P>(device, host) {
            return Some(binding);
        }
        let offset = self.add(host.len());
        Some(staging?.at(offset))
    }
}

/// Calls `each` with the index, Command and offset of every transfer that goes through staging memory. Returns the
/// layout of all.
pub(crate) fn transfers<'a, P: Platform>(
    device: usize,
    commands: &'a [BoundCommand],
    mut each: impl FnMut(usize, &'a BoundCommand, usize),
) -> StagingLayout {
    let mut layout = StagingLayout::default();
    for (index, command) in commands.iter().enumerate() {
        if let Op::Upload { source: host, .. } | Op::Download { target: host } = command.op()
            && device_address::<P>(device, host).is_none()
        {
            each(index, command, layout.add(host.len()));
        }
    }
    layout
}

/// The pieces of a queue.
pub(crate) struct StagingPool<P: Platform> {
    pieces: Vec<Arc<Staging<P>>>,
}

impl<P: Platform> Default for StagingPool<P> {
    fn default() -> Self {
        Self { pieces: Vec::new() }
    }
}

impl<P: Platform> StagingPool<P> {
    /// A free piece of at least that size.
    ///
    /// # Errors
    ///
    /// No memory, or the error of the driver.
    pub fn take(&mut self, platform: &P, bytes: usize) -> Result<Arc<Staging<P>>, Failure> {
        let fits = |piece: &&Arc<Staging<P>>| !piece.is_busy() && piece.bytes() >= bytes;
        let smallest = self.pieces.iter().filter(fits).min_by_key(|piece| piece.bytes());
        if let Some(piece) = smallest {
            return Ok(Arc::clone(piece));
        }
        let piece = Staging::new(platform, rounded(bytes))?;
        if keeps(bytes) {
            // The others are too small or busy. The oldest are freed when their batches have completed.
            while self.pieces.len() >= KEPT_PIECES || self.kept() + piece.bytes() > KEPT_TOTAL {
                self.pieces.remove(0);
            }
            self.pieces.push(Arc::clone(&piece));
        }
        Ok(piece)
    }

    fn kept(&self) -> usize {
        self.pieces.iter().map(|piece| piece.bytes()).sum()
    }
}

/// Whether a piece of that size is kept for later.
fn keeps(bytes: usize) -> bool {
    bytes <= KEPT_BYTES
}

/// The size with which a piece is made, so that other batches can use it too.
fn rounded(bytes: usize) -> usize {
    if keeps(bytes) { bytes.next_power_of_two().max(64 << 10) } else { bytes }
}

#[cfg(test)]
mod tests;
