//! Host memory that the GPU reaches by itself, lent to the transfers of a stream.
//!
//! An upload whose bytes lie in it is copied straight from there, a download straight to it, and nothing is
//! copied on the host. Its address is part of what makes two batches the same: a graph that was captured with
//! it is replayed only for a batch that has that very piece, and keeps it where it is.

use std::any::Any;
use std::ptr::NonNull;

use millstream_core::{BoundCommand, HostBounds, HostBytes, HostPiece, HostPool, Op};

use super::staging::KEPT_BYTES;
use crate::driver::Pinned;
use crate::gpu::Gpu;

/// Transfers up to this size are copied through staging memory: two copies of so little take less than a batch
/// gains by being the same as the one before whatever memory its transfers have.
const STAGED_BYTES: usize = 16 << 10;

/// What a queue lends. What is larger is rare, and pinning so much would last longer than copying it.
const BOUNDS: HostBounds =
    HostBounds { smallest: STAGED_BYTES + 1, largest: KEPT_BYTES, pieces: 64, total: 64 << 20 };

/// A piece, and the number of the GPU that it has its address on.
struct Piece {
    memory: Pinned,
    gpu: usize,
}

// SAFETY: pinned memory is zeroed, in pages of its own, and reached by nothing but transfers.
unsafe impl HostPiece for Piece {
    fn start(&self) -> NonNull<u8> {
        self.memory.start()
    }

    fn bytes(&self) -> usize {
        self.memory.bytes()
    }
}

/// Where the bytes of a transfer are, as host and GPU see them.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    pub host: *mut u8,
    pub address: usize,
}

/// The address of bytes that the GPU with that number reaches by itself.
pub(crate) fn reached(gpu: usize, host: &HostBytes) -> Option<usize> {
    let piece = host.piece::<Piece>().filter(|piece| piece.gpu == gpu)?;
    Some(piece.memory.address())
}

/// What keeps the addresses good that a graph of these Commands was captured with.
pub(crate) fn kept_addresses(
    commands: &[BoundCommand],
) -> impl Iterator<Item = Box<dyn Any + Send>> {
    commands.iter().filter_map(|command| match command.op() {
        Op::Upload { source: host, .. } | Op::Download { target: host } => host.keep_address(),
        _ => None,
    })
}

/// The pieces of a queue.
pub(crate) struct HostMemory {
    gpu: &'static Gpu,
    pool: HostPool<Piece>,
}

impl HostMemory {
    pub fn new(gpu: &'static Gpu) -> Self {
        Self { gpu, pool: HostPool::new(BOUNDS) }
    }

    /// See [`Queue::host_memory`](millstream_core::Queue::host_memory).
    pub fn take(&self, bytes: usize) -> Option<HostBytes> {
        // Nobody can say when a lost GPU is through with a piece, even with one that was given back.
        self.gpu.check().ok()?;
        self.pool.take(bytes, |size| {
            let memory = Pinned::new(&self.gpu.context, size);
            // Without it the transfer goes through staging memory, which says what is wrong.
            let memory = memory.inspect_err(|failure| drop(self.gpu.note(failure))).ok()?;
            Some(Piece { memory, gpu: self.gpu.properties.ordinal })
        })
    }

    /// See [`Queue::trim`](millstream_core::Queue::trim).
    pub fn trim(&self) {
        if self.gpu.check().is_ok() {
            self.pool.trim();
        }
    }

    /// Gives back what is not lent.
    pub fn close(&self) {
        self.pool.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_from_the_heap_is_not_reached() {
        let host = HostBytes::zeroed(1 << 20);
        assert!(reached(0, &host).is_none());
    }
}
