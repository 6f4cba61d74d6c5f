//! Host memory that the device reaches by itself, leased to the transfers of a stream.
//!
//! An upload whose bytes lie in it is copied straight from there, a download straight to it, and nothing is
//! copied on the host. Its address is part of what makes two batches the same: what was captured with it is
//! replayed only for a batch that has that very piece, and keeps it where it is.

use std::any::Any;
use std::ptr::NonNull;

use millstream_core::{BoundCommand, HostBounds, HostBytes, HostPiece, HostPool, Op};

use super::segments::Registered;
use super::staging::KEPT_BYTES;
use crate::platform::{Binding, HostVisible, Memory, Platform};

/// Transfers up to this size are copied through staging memory: two copies of so little take less than a batch
/// gains by being the same as the one before whatever memory its transfers have.
const STAGED_BYTES: usize = 16 << 10;

/// What a queue leases. What is larger is rare, and pinning so much would last longer than copying it.
const BOUNDS: HostBounds =
    HostBounds { smallest: STAGED_BYTES + 1, largest: KEPT_BYTES, pieces: 64, total: 64 << 20 };

/// A piece, and the number of the device that it has its address on.
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

/// Where the bytes of a transfer are for the device.
#[derive(Clone, Copy)]
pub(crate) struct HostBinding<S> {
    pub binding: Binding<S>,
    pub address: usize,
}

fn piece<P: Platform>(device: usize, host: &HostBytes) -> Option<&Piece<P>> {
    host.piece::<Piece<P>>().filter(|piece| piece.device == device)
}

/// The address of bytes that the device with that number reaches by itself.
pub(crate) fn device_address<P: Platform>(device: usize, host: &HostBytes) -> Option<usize> {
    piece::<P>(device, host).map(|piece| piece.memory.memory().address())
}

/// Bytes that the device with that number reaches by itself.
pub(super) fn reached<P: Platform>(
    device: usize,
    host: &HostBytes,
) -> Option<HostBinding<P::Segment>> {
    let memory = &piece::<P>(device, host)?.memory;
    Some(HostBinding { binding: memory.binding(), address: memory.memory().address() })
}

/// What keeps the addresses good that these Commands were captured with.
pub(crate) fn kept_addresses(
    commands: &[BoundCommand],
) -> impl Iterator<Item = Box<dyn Any + Send>> {
    commands.iter().filter_map(|command| match command.op() {
        Op::Upload { source: host, .. } | Op::Download { target: host } => host.keep_address(),
        _ => None,
    })
}

/// The pieces of a queue.
pub(crate) struct HostMemory<P: Platform> {
    platform: P,
    pool: HostPool<Piece<P>>,
}

impl<P: Platform> HostMemory<P> {
    pub fn new(platform: P) -> Self {
        Self { platform, pool: HostPool::new(BOUNDS) }
    }

    /// See [`Queue::host_memory`](millstream_core::Queue::host_memory).
    pub fn take(&self, bytes: usize) -> Option<HostBytes> {
        let status = self.platform.status();
        // Nobody can say when a lost device is through with a piece, even with one that was given back.
        status.check().ok()?;
        self.pool.take(bytes, |size| {
            let memory = self.platform.allocate_host(size);
            // Without it the transfer goes through staging memory, which says what is wrong.
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

    /// Gives back what is not leased.
    pub fn close(&self) {
        self.pool.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn memory_from_the_heap_is_not_reached() {
        let host = HostBytes::zeroed(1 << 20);
        assert!(device_address::<Fake>(0, &host).is_none());
    }
}
