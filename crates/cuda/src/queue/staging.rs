//! Host memory through which uploads and downloads go that are small, or lie on the heap. (Others go
//! straight from and to where they lie; see `host.rs`.)
//!
//! A batch has one piece, in which every transfer has its place: found again by walking the Commands, so
//! nothing is written down. A piece is busy from the submit until somebody has seen the batch complete.

use std::sync::Arc;

use millstream_core::sync::Checkout;
use millstream_core::{BoundCommand, HostBytes, Op};

use super::host::{Seen, reached};
use crate::driver::{Context, Failure, Pinned};

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
pub(crate) struct Staging {
    memory: Pinned,
    checkout: Checkout,
}

impl Staging {
    /// # Errors
    ///
    /// No memory, or what the driver said.
    pub fn new(context: &Arc<Context>, bytes: usize) -> Result<Arc<Self>, Failure> {
        Ok(Arc::new(Self { memory: Pinned::new(context, bytes)?, checkout: Checkout::new() }))
    }

    /// The memory.
    pub fn memory(&self) -> &Pinned {
        &self.memory
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

/// Deals out places one behind the other.
#[derive(Default)]
pub(crate) struct Places {
    next: usize,
}

impl Places {
    /// A place of that size.
    pub fn take(&mut self, bytes: usize) -> usize {
        let place = self.next;
        self.next += bytes.next_multiple_of(ALIGNMENT);
        place
    }

    /// What all so far take together.
    pub fn total(&self) -> usize {
        self.next
    }

    /// Where a transfer's bytes are for the GPU with that number: where they lie if it reaches them, else
    /// at the next place. `None` if they need a place and there is no staging memory.
    pub fn see(&mut self, gpu: usize, host: &HostBytes, staging: Option<&Staging>) -> Option<Seen> {
        if let Some(address) = reached(gpu, host) {
            return Some(Seen { host: host.as_mut_ptr(), address });
        }
        let (place, memory) = (self.take(host.len()), staging?.memory());
        // SAFETY: the staging memory is as large as all places together.
        let host = unsafe { memory.host().add(place) };
        Some(Seen { host, address: memory.address() + place })
    }
}

/// Calls `visit` with the index, Command and place of every transfer that has one; gives the size of all.
pub(crate) fn transfers<'a>(
    gpu: usize,
    commands: &'a [BoundCommand],
    mut visit: impl FnMut(usize, &'a BoundCommand, usize),
) -> Places {
    let mut places = Places::default();
    for (index, command) in commands.iter().enumerate() {
        if let Op::Upload { source: host, .. } | Op::Download { target: host } = command.op()
            && reached(gpu, host).is_none()
        {
            visit(index, command, places.take(host.len()));
        }
    }
    places
}

/// The pieces of a queue.
#[derive(Default)]
pub(crate) struct StagingPool {
    pieces: Vec<Arc<Staging>>,
}

impl StagingPool {
    /// A piece of at least that size that nobody uses.
    ///
    /// # Errors
    ///
    /// No memory, or what the driver said.
    pub fn take(&mut self, context: &Arc<Context>, bytes: usize) -> Result<Arc<Staging>, Failure> {
        let fits = |piece: &&Arc<Staging>| !piece.is_busy() && piece.memory().bytes() >= bytes;
        let smallest = self.pieces.iter().filter(fits).min_by_key(|piece| piece.memory().bytes());
        if let Some(piece) = smallest {
            return Ok(Arc::clone(piece));
        }
        let piece = Staging::new(context, rounded(bytes))?;
        if keeps(bytes) {
            // The others are too small or busy: the oldest go when their batches are through.
            while self.pieces.len() >= KEPT_PIECES
                || self.kept() + piece.memory().bytes() > KEPT_TOTAL
            {
                self.pieces.remove(0);
            }
            self.pieces.push(Arc::clone(&piece));
        }
        Ok(piece)
    }

    fn kept(&self) -> usize {
        self.pieces.iter().map(|piece| piece.memory().bytes()).sum()
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

    #[test]
    fn places_do_not_overlap_and_are_aligned() {
        let mut places = Places::default();
        assert_eq!(
            [places.take(1), places.take(256), places.take(257), places.take(0)],
            [0, 256, 512, 1024]
        );
        assert_eq!(places.total(), 1024);
    }

    #[test]
    fn transfers_find_the_same_places_every_time() {
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
        let total = transfers(0, &commands, |index, _, place| found.push((index, place))).total();
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
