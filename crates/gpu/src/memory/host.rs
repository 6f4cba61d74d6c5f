//! Host memory that the device reaches directly, leased to the transfers of a stream.
//!
//! An upload is copied straight from it and a download straight to it, without a copy on the host. Its address is
//! part of what makes two batches equal: a list that was captured with it is replayed only for a batch with the same
//! piece, and keeps the piece at its address.

use std::any::Any;
use std::ptr::NonNull;

use millstream_core::{BoundCommand, HostBounds, HostBytes, HostPiece, HostPool, Op};

use super::segments::Registered;
use super::staging::KEPT_BYTES;
use crate::platform::{Binding, HostVisible, Memory, Platform};

/// Transfers up to this size are copied through staging memory. Two copies of so little cost less than what is
/// gained: the batch equals the one before, whatever memory its transfers have.
const STAGED_BYTES: usize = 16 << 10;

/// Where threads take turns as one user of a stream, smaller ones are leased too: they have the same memory again and again, which makes
/// their batches equal, and save both copies.
const STAGED_BYTES_OF_ONE_USER: usize = 2 << 10;

/// The bounds of a queue's leases.
const QUEUE: HostBounds = HostBounds {
    smallest: STAGED_BYTES + 1,
    smallest_of_one_user: STAGED_BYTES_OF_ONE_USER + 1,
    largest: KEPT_BYTES,
    pieces: 64,
    total: 64 << 20,
};

/// The bounds of larger leases, and of those for which a queue has no memory left, for all queues of a device together:
/// pinning so much memory takes far longer than transferring it, so that it is kept.
const DEVICE: HostBounds = HostBounds {
    smallest: 1 << 20,
    smallest_of_one_user: 1 << 20,
    largest: 1 << 30,
    pieces: 64,
    total: 2 << 30,
};

/// A piece of memory, and the number of the device on which it has its address.
struct Piece<P: Platform> {
    memory: Registered<P::HostMemory>,
    device: usize,
}

// SAFETY: memory of the platform is initialized and aligned as `HostVisible` promises, and reached by nothing but
// transfers.
unsafe impl<P: Platform> HostPiece for Piece<P> {
    fn start(&self) -> NonNull<u8> {
        self.memory.memory().host()
    }

    fn bytes(&self) -> usize {
        self.memory.memory().bytes()
    }
}

/// The place of a transfer's bytes on the device.
#[derive(Clone, Copy)]
pub(crate) struct HostBinding<S> {
    pub binding: Binding<S>,
    pub address: usize,
}

fn piece<P: Platform>(device: usize, host: &HostBytes) -> Option<&Piece<P>> {
    host.piece::<Piece<P>>().filter(|piece| piece.device == device)
}

/// The address of bytes that the device with this number reaches directly.
pub(crate) fn device_address<P: Platform>(device: usize, host: &HostBytes) -> Option<usize> {
    piece::<P>(device, host).map(|piece| piece.memory.memory().address())
}

/// Bytes that the device with this number reaches directly.
pub(super) fn reached<P: Platform>(
    device: usize,
    host: &HostBytes,
) -> Option<HostBinding<P::Segment>> {
    let memory = &piece::<P>(device, host)?.memory;
    Some(HostBinding { binding: memory.binding(), address: memory.memory().address() })
}

/// Keeps the addresses valid with which these Commands were captured.
pub(crate) fn kept_addresses(
    commands: &[BoundCommand],
) -> impl Iterator<Item = Box<dyn Any + Send>> {
    commands.iter().filter_map(|command| match command.op() {
        Op::Upload { source: host, .. } | Op::Download { target: host } => host.keep_address(),
        _ => None,
    })
}

/// The pieces of a queue, or the larger ones of a device.
pub(crate) struct HostMemory<P: Platform> {
    platform: P,
    pool: HostPool<Piece<P>>,
}

impl<P: Platform> HostMemory<P> {
    pub fn of_queue(platform: P) -> Self {
        Self { platform, pool: HostPool::new(QUEUE) }
    }

    pub fn of_device(platform: P) -> Self {
        Self { platform, pool: HostPool::new(DEVICE) }
    }

    /// See [`Queue::host_memory`](millstream_core::Queue::host_memory).
    pub fn take(&self, bytes: usize) -> Option<HostBytes> {
        let status = self.platform.status();
        // It is unknown whether a lost device still uses a piece, even one that was released.
        status.check().ok()?;
        self.pool.take(bytes, |size| {
            let memory = self.platform.allocate_host(size);
            // Without it the transfer goes through staging memory, which reports the error.
            let memory = memory.inspect_err(|failure| drop(status.note(failure))).ok()?;
            let memory = Registered::new(self.platform.segments(), memory);
            Some(Piece { memory, device: self.platform.number() })
        })
    }

    /// See [`Queue::trim`](millstream_core::Queue::trim).
    pub fn trim(&self) {
        if self.platform.status().check().is_ok() {
            self.pool.trim();
        }
    }

    /// Frees all pieces that are not leased.
    pub fn close(&self) {
        self.pool.close();
    }
}

#[cfg(test)]
mod tests;
