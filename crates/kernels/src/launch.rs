//! What a Command becomes: launches of kernels.

use millstream_core::{Operand, RawBuffer};
use smallvec::SmallVec;

use crate::{Key, Params};

/// The most threads of a group, unless the key has a constant `THREADS` that says how many there are.
pub(crate) const USUAL_THREADS: u32 = 256;

/// What a device can do. Tests ask for small groups through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Threads of one group; a multiple of `simd_width`.
    pub max_threads: u32,
    /// Bytes of memory that the threads of a group share.
    pub shared_bytes: u32,
    /// Threads that run in step: 32 on every device there is so far.
    pub simd_width: u32,
    /// Whether there is 64-bit floating point.
    pub f64: bool,
    /// About how many groups fill the device.
    pub parallel_groups: u32,
}

impl Limits {
    /// How many groups of `threads` to start for `items` pieces of work, when each thread takes
    /// several in a loop. At least 1.
    pub fn groups_for(&self, items: usize, threads: u32) -> u32 {
        let wanted = items.div_ceil(threads as usize).max(1);
        u32::try_from(wanted).unwrap_or(u32::MAX).min(self.parallel_groups.max(1).saturating_mul(4))
    }

    /// The usual size of a group: 256, or fewer where the device has fewer.
    pub fn usual_threads(&self) -> u32 {
        self.max_threads.min(USUAL_THREADS)
    }
}

/// Where a buffer argument lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// At a device address.
    Address(usize),
    /// At a byte offset in the scratch memory of the Command.
    Workspace(usize),
    /// The fault record of the batch.
    Faults,
}

impl From<&Operand<RawBuffer>> for Slot {
    fn from(operand: &Operand<RawBuffer>) -> Self {
        Slot::Address(operand.buffer.address)
    }
}

/// One launch of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// The kernel.
    pub key: Key,
    /// Groups along three axes.
    pub groups: [u32; 3],
    /// Threads of each group.
    pub threads: u32,
    /// The buffers, in the order of the kernel's arguments.
    pub slots: SmallVec<[Slot; 6]>,
    /// The last argument.
    pub params: Params,
}

/// What a Command becomes. Launches run in order, each after the one before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lowered {
    /// The launches.
    pub launches: SmallVec<[Launch; 2]>,
    /// Bytes of scratch memory that they need together.
    pub workspace: usize,
}

impl Lowered {
    /// Reserves scratch memory, aligned to 256 bytes.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Slot {
        let at = self.workspace;
        self.workspace = at + bytes.next_multiple_of(256);
        Slot::Workspace(at)
    }
}
