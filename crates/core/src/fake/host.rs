//! Host memory that the fake device claims to reach directly.

use std::ptr::NonNull;

use crate::{HostBounds, HostPiece};

/// The bounds of the pool: small, so that tests reach them.
pub(super) const BOUNDS: HostBounds = HostBounds {
    smallest: 4096,
    smallest_of_one_user: 4096,
    largest: 64 << 10,
    pieces: 4,
    total: 128 << 10,
};

pub(super) struct HostMemory(Box<[u64]>);

impl HostMemory {
    pub fn new(bytes: usize) -> Self {
        Self(vec![0; bytes.div_ceil(8).max(1)].into())
    }
}

// SAFETY: the box has that many bytes, aligned and initialized, and only the pool touches them.
unsafe impl HostPiece for HostMemory {
    fn start(&self) -> NonNull<u8> {
        NonNull::from(&self.0[0]).cast()
    }

    fn bytes(&self) -> usize {
        self.0.len() * 8
    }
}
