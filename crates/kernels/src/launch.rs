//! Launches of kernels: what a Command is lowered to.

use millstream_core::{Operand, RawBuffer};
use smallvec::SmallVec;

use crate::{Key, Params};

/// The most threads of a group, unless the key has a constant `THREADS`.
pub(crate) const USUAL_THREADS: u32 = 256;

/// The limits of a device. Tests use small limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most threads of one group; a multiple of `simd_width`.
    pub max_threads: u32,
    /// The memory that the threads of a group share, in bytes.
    pub shared_bytes: u32,
    /// Threads that run in lockstep: 32 on every device so far.
    pub simd_width: u32,
    /// Whether the device has 64-bit floating point.
    pub f64: bool,
    /// Whether the threads that run in lockstep multiply matrices together, as those of Apple's GPUs do. Programs for it
    /// exist in Metal's dialect alone.
    pub matrices: bool,
    /// Whether simd groups multiply matrices of 16-bit numbers at once, as `common/tensor_cores.kernel` describes.
    pub tensor_cores: bool,
    /// About how many groups fill the device.
    pub parallel_groups: u32,
}

impl Limits {
    /// How many groups of `threads` to start for `items` pieces of work if each thread takes several in a loop. At
    /// least 1.
    pub fn groups_for(&self, items: usize, threads: u32) -> u32 {
        let wanted = items.div_ceil(threads as usize).max(1);
        u32::try_from(wanted).unwrap_or(u32::MAX).min(self.parallel_groups.max(1).saturating_mul(4))
    }

    /// The usual size of a group: 256, or the device's limit if that is lower.
    pub fn usual_threads(&self) -> u32 {
        self.max_threads.min(USUAL_THREADS)
    }
}

/// The place of a buffer argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// A device address.
    Address(usize),
    /// A byte offset in the scratch memory of the Command.
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
    /// The last argument of the kernel.
    pub params: Params,
}

/// A lowered Command. Its launches run in order, one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lowered {
    /// The launches.
    pub launches: SmallVec<[Launch; 2]>,
    /// Bytes of scratch memory for all of them.
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
