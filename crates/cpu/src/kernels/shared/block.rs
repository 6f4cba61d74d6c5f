//! Blocks of elements, one after another in memory.

use std::mem::MaybeUninit;

use millstream_core::{Operand, RawBuffer};

use super::parallel::{Parallel, parallel_for};
use super::streaming;
use super::walk::Walk;

/// Elements of one block: large enough to hide the work per block, small enough for the first-level
/// cache to hold a few.
pub(crate) const BLOCK: usize = 512;

/// The blocks of a dense row of `count` elements, as first element and length.
#[inline(always)]
pub(crate) fn blocks(count: usize, block: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
    (0..count).step_by(block).map(move |first| (first, block.min(count - first)))
}

/// Memory of one block. It is not initialized, so that small commands do not pay for a large block.
pub(crate) struct BlockBuffer<C>([MaybeUninit<C>; BLOCK]);

impl<C: Copy> BlockBuffer<C> {
    #[inline(always)]
    pub const fn new() -> Self {
        BlockBuffer([const { MaybeUninit::uninit() }; BLOCK])
    }

    /// The room for the first element.
    #[inline(always)]
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }

    /// Room for so many elements.
    #[inline(always)]
    pub fn first(&mut self, len: usize) -> &mut [MaybeUninit<C>] {
        &mut self.0[..len]
    }
}

/// The first byte of the first element of an operand.
///
/// # Safety
///
/// The address of the operand is a host pointer that is valid for the operand's extent.
pub(crate) unsafe fn first_byte(operand: &Operand<RawBuffer>) -> *mut u8 {
    let buffer = operand.buffer.address as *mut u8;
    if operand.layout.is_empty() {
        // The offset of an empty layout may lie outside its buffer.
        return buffer;
    }
    // SAFETY: the first element lies inside the extent of a layout that is not empty.
    unsafe { buffer.add(operand.layout.offset() * operand.layout.dtype().size()) }
}

/// The first element of an operand.
///
/// # Safety
///
/// The address of the operand is a host pointer that is valid for the operand's extent.
pub(crate) unsafe fn base<T>(operand: &Operand<RawBuffer>) -> *mut T {
    let buffer = operand.buffer.address as *mut T;
    if operand.layout.is_empty() {
        // The offset of an empty layout may lie outside its buffer.
        return buffer;
    }
    // SAFETY: the first element lies inside the extent of a layout that is not empty.
    unsafe { buffer.add(operand.layout.offset()) }
}

/// Shares the blocks of an elementwise command between threads: `body(start, len)`. The body is not a type of
/// its own here, so that this is compiled once for every number of operands: a block is work enough for an
/// indirect call.
pub(crate) fn each_block<const N: usize>(
    walk: &Walk<N>,
    parallel: &dyn Parallel,
    body: &(dyn Fn(usize, usize) + Sync),
) {
    // Whatever the type, so that it need not be known here; small blocks and a fence cost little.
    let large = streaming::is_large(walk.elements().saturating_mul(size_of::<u64>()));
    let block = if large { streaming::BURST / size_of::<f32>() } else { BLOCK };
    parallel_for(parallel, walk.elements(), 1, |range| {
        walk.blocks(range, block, body);
        if large {
            streaming::fence();
        }
    });
}
