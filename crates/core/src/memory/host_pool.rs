//! A pool of host memory that a device reaches by itself (pinned memory), for transfers.
//!
//! Pinning memory takes far longer than most transfers, so a queue keeps it. Checking out a piece takes the
//! lock of the pool, which only the users of that stream take. Returning it is one store, by whichever thread
//! drops the last clone.
//!
//! A caller that repeats its calls gets the same addresses again, so what a backend captured with them stays
//! valid. Of the free pieces that are large enough, the pool takes the smallest that the calling thread had
//! before, then makes a new one, and at the bounds takes any.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::HostBytes;
use crate::command::PoolEntry;
use crate::stream::{thread_number, works_as_user};
use crate::sync::Checkout;
use crate::sync::shim::{Mutex, lock};

/// Host memory that a device reaches by itself.
///
/// # Safety
///
/// As long as the value lives, there are [`bytes`](Self::bytes) initialized bytes at
/// [`start`](Self::start), a multiple of 8, which nothing else touches.
pub unsafe trait HostPiece: Send + Sync + 'static {
    /// The first byte.
    fn start(&self) -> NonNull<u8>;

    /// The size.
    fn bytes(&self) -> usize;
}

/// How much a pool holds.
#[derive(Clone, Copy, Debug)]
pub struct HostBounds {
    /// The smallest transfer that gets a piece.
    pub smallest: usize,
    /// The same for who works as [one user](crate::Stream::as_one_user) of the stream.
    pub smallest_of_one_user: usize,
    /// The largest.
    pub largest: usize,
    /// How many pieces there are at most.
    pub pieces: usize,
    /// What all of them take together at most.
    pub total: usize,
}

/// The pieces of a queue. When a bound is reached, the pool drops unused pieces. If that is not enough,
/// [`take`](Self::take) gives `None`.
pub struct HostPool<M> {
    bounds: HostBounds,
    state: Mutex<State<M>>,
}

impl<M> std::fmt::Debug for HostPool<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostPool").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

struct State<M> {
    pieces: Vec<Kept<M>>,
    clock: u64,
    closed: bool,
}

struct Kept<M> {
    piece: Arc<Piece<M>>,
    /// The clock when it was checked out last.
    used: u64,
    /// The thread that checked it out last.
    thread: usize,
}

struct Piece<M> {
    checkout: Checkout,
    memory: M,
}

impl<M: HostPiece> PoolEntry for Piece<M> {
    fn release(&self) {
        self.checkout.release();
    }
}

impl<M: HostPiece> Kept<M> {
    /// Not checked out, and nobody relies on its address. Only `take`, under the lock, changes that.
    fn is_spare(&self) -> bool {
        !self.piece.checkout.is_out() && Arc::strong_count(&self.piece) == 1
    }
}

impl<M: HostPiece> HostPool<M> {
    /// An empty pool.
    pub fn new(bounds: HostBounds) -> Self {
        let state = State { pieces: Vec::new(), clock: 0, closed: false };
        Self { bounds, state: Mutex::new(state) }
    }

    /// Checks out a piece for a transfer of `bytes` bytes. `make` makes a new piece of at least the size that
    /// it is given. `None` for a size out of bounds, when too much is checked out, when `make` gave nothing,
    /// or after [`close`](Self::close).
    pub fn take(&self, bytes: usize, make: impl FnOnce(usize) -> Option<M>) -> Option<HostBytes> {
        let HostBounds { smallest, smallest_of_one_user, .. } = self.bounds;
        let smallest = if works_as_user() { smallest_of_one_user } else { smallest };
        if bytes < smallest.max(1) || bytes > self.bounds.largest {
            return None;
        }
        // Declared before the guard, so that it is dropped without the lock.
        let mut gone = Vec::new();
        let mut state = lock(&self.state);
        if state.closed {
            return None;
        }
        let thread = thread_number();
        let size = bytes.checked_next_power_of_two().unwrap_or(bytes).min(self.bounds.largest);
        let own = state.first_free(bytes, |kept| kept.thread == thread);
        let index = if let Some(index) = own {
            index
        } else if state.has_room(size, &self.bounds) {
            state.add(make(size).filter(|memory| memory.bytes() >= bytes)?)
        } else if let Some(index) = state.first_free(bytes, |_| true) {
            index
        } else if state.make_room(size, &self.bounds, &mut gone) {
            state.add(make(size).filter(|memory| memory.bytes() >= bytes)?)
        } else {
            return None;
        };
        state.clock += 1;
        let clock = state.clock;
        let kept = &mut state.pieces[index];
        kept.used = clock;
        kept.thread = thread;
        if !kept.piece.checkout.take() {
            return None;
        }
        let (start, piece) = (kept.piece.memory.start(), Arc::clone(&kept.piece));
        // SAFETY: the piece is at least that large, as `HostPiece` promises, and nobody else gets it until
        // it is released.
        Some(unsafe { HostBytes::pooled(start, bytes, piece) })
    }

    /// Frees the pieces that are not checked out and whose address nobody relies on.
    pub fn trim(&self) {
        let spare: Vec<_> =
            lock(&self.state).pieces.extract_if(.., |kept| kept.is_spare()).collect();
        drop(spare);
    }

    /// Closes the pool. Pieces that are checked out are freed when they are released.
    pub fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        let pieces = std::mem::take(&mut state.pieces);
        drop(state);
        drop(pieces);
    }

    /// How many pieces there are, and how many of them are checked out.
    pub fn count(&self) -> (usize, usize) {
        let state = lock(&self.state);
        let taken = state.pieces.iter().filter(|kept| kept.piece.checkout.is_out()).count();
        (state.pieces.len(), taken)
    }
}

impl<M: HostPiece> State<M> {
    /// Of the free pieces that are large enough and wanted, the first of the smallest.
    fn first_free(&self, bytes: usize, wanted: impl Fn(&Kept<M>) -> bool) -> Option<usize> {
        let size = |index: &usize| self.pieces[*index].piece.memory.bytes();
        let fits = |index: &usize| {
            let kept = &self.pieces[*index];
            size(index) >= bytes && wanted(kept) && !kept.piece.checkout.is_out()
        };
        // The minimum that comes first.
        (0..self.pieces.len()).filter(fits).min_by_key(size)
    }

    /// Adds a piece; gives its index.
    fn add(&mut self, memory: M) -> usize {
        let piece = Arc::new(Piece { checkout: Checkout::new(), memory });
        self.pieces.push(Kept { piece, used: 0, thread: 0 });
        self.pieces.len() - 1
    }

    /// Whether there is room for one more of that size.
    fn has_room(&self, size: usize, bounds: &HostBounds) -> bool {
        let sizes = self.pieces.iter().map(|kept| kept.piece.memory.bytes());
        let total = sizes.fold(size, usize::saturating_add);
        self.pieces.len() < bounds.pieces && total <= bounds.total
    }

    /// Makes room for one more of that size, by dropping spare pieces if need be. Says whether there is room.
    fn make_room(&mut self, size: usize, bounds: &HostBounds, gone: &mut Vec<Kept<M>>) -> bool {
        while !self.has_room(size, bounds) {
            let spare = (0..self.pieces.len()).filter(|&index| self.pieces[index].is_spare());
            let Some(oldest) = spare.min_by_key(|&index| self.pieces[index].used) else {
                return false;
            };
            gone.push(self.pieces.remove(oldest));
        }
        true
    }
}

impl HostBytes {
    /// The piece that these bytes lie in, if they are from a [`HostPool`] of such pieces. The bytes begin
    /// where the piece does.
    pub fn piece<M: HostPiece>(&self) -> Option<&M> {
        self.pool_entry::<Piece<M>>().map(|piece| &piece.memory)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
