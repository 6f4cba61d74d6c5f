//! Host memory through which uploads and downloads go that are small, or lie on the heap. (Others go
//! straight from and to where they lie; see `host.rs`.)
//!
//! A batch has one piece, in which every transfer has its offset: found again by walking the Commands, so
//! nothing is written down. A piece is busy from the submit until somebody has seen the batch complete.

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
/// What all that are kept take together.
const KEPT_TOTAL: usize = 64 << 20;
/// How many are kept; as many as batches can well be in flight.
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
    /// No memory, or what the driver said.
    pub fn new(platform: &P, bytes: usize) -> Result<Arc<Self>, Failure> {
        let memory = Registered::new(platform.segments(), platform.allocate_host(bytes)?);
        Ok(Arc::new(Self { memory, checkout: Checkout::new() }))
    }

    /// The first byte as the host sees it.
    pub fn host(&self) -> *mut u8 {
        self.memory.memory().host().as_ptr()
    }

    fn bytes(&self) -> usize {
        self.memory.memory().bytes()
    }

    /// The place so many bytes from the beginning.
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
        // The caller has seen that nobody has it.
        let _ = self.checkout.take();
    }

    /// The batch is through, and its downloads are copied.
    pub fn release(&self) {
        self.checkout.release();
    }
}

/// Where each transfer of a batch has its bytes: one behind the other.
#[derive(Default)]
pub(crate) struct StagingLayout {
    next: usize,
}

impl StagingLayout {
    /// The offset of the next transfer, of that size.
    pub fn add(&mut self, bytes: usize) -> usize {
        let offset = self.next;
        self.next += bytes.next_multiple_of(ALIGNMENT);
        offset
    }

    /// What all so far take together.
    pub fn total(&self) -> usize {
        self.next
    }

    /// Where a transfer's bytes are for the device with that number: where they lie if it reaches them, else
    /// in the staging memory. `None` if they have to be there and there is none.
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

/// Calls `each` with the index, Command and offset of every transfer that goes through staging memory; gives the
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
    /// A piece of at least that size that nobody uses.
    ///
    /// # Errors
    ///
    /// No memory, or what the driver said.
    pub fn take(&mut self, platform: &P, bytes: usize) -> Result<Arc<Staging<P>>, Failure> {
        let fits = |piece: &&Arc<Staging<P>>| !piece.is_busy() && piece.bytes() >= bytes;
        let smallest = self.pieces.iter().filter(fits).min_by_key(|piece| piece.bytes());
        if let Some(piece) = smallest {
            return Ok(Arc::clone(piece));
        }
        let piece = Staging::new(platform, rounded(bytes))?;
        if keeps(bytes) {
            // The others are too small or busy: the oldest go when their batches are through.
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

/// The size that a piece is made with, so that others find it useful.
fn rounded(bytes: usize) -> usize {
    if keeps(bytes) { bytes.next_power_of_two().max(64 << 10) } else { bytes }
}

#[cfg(test)]
mod tests {
    use millstream_core::{Command, DType, HostBytes, Layout, Operand, RawBuffer};

    use super::*;
    use crate::fake::Fake;

    #[test]
    fn transfers_do_not_overlap_and_are_aligned() {
        let mut layout = StagingLayout::default();
        assert_eq!([1, 256, 257, 0].map(|bytes| layout.add(bytes)), [0, 256, 512, 1024]);
        assert_eq!(layout.total(), 1024);
    }

    #[test]
    fn transfers_find_the_same_offsets_every_time() {
        let operand = |bytes: usize| {
            let layout = Layout::contiguous(DType::U8, &[bytes]).unwrap();
            Operand::new(RawBuffer { address: 0, bytes }, layout)
        };
        let commands = [
            Command::upload(operand(300), HostBytes::zeroed(300)).unwrap(),
            Command::fill(operand(8), 0i64).unwrap(),
            Command::download(HostBytes::zeroed(5), operand(5)).unwrap(),
        ];
        let mut found = Vec::new();
        let layout =
            transfers::<Fake>(0, &commands, |index, _, offset| found.push((index, offset)));
        let total = layout.total();
        assert_eq!((found, total), (vec![(0, 0), (2, 512)], 768));
    }

    #[test]
    fn small_pieces_are_kept_and_large_ones_go() {
        assert!(keeps(KEPT_BYTES) && !keeps(KEPT_BYTES + 1));
        assert_eq!((rounded(1), rounded(100_000)), (64 << 10, 128 << 10));
        assert_eq!(rounded(5 << 20), 8 << 20);
        assert_eq!(rounded(40 << 20), 40 << 20);
    }
}
