//! Elementwise operations: functions of tiles of dense elements, applied to the whole operands of a Command.
//!
//! Each family of operations says once which function serves which element type, for a tile. A chain calls it for
//! its own tiles. What takes the operands apart knows neither types nor functions, and is compiled once.

use std::mem::MaybeUninit;

use millstream_core::{Operand, RawBuffer};

use super::block::{BLOCK, BlockBuffer, blocks, each_block};
use super::number::Stored;
use super::parallel::Parallel;
use super::untyped::{UntypedInput, UntypedOutput};
use super::walk::Walk;

/// Dense elements as they are stored. Whoever makes one promises that all pointers are valid for so many
/// elements, aligned, that inputs are initialized, and that the output overlaps none of them.
#[derive(Clone, Copy)]
pub(crate) struct DenseTile<const N: usize> {
    pub to: *mut u8,
    pub from: [*const u8; N],
    pub count: usize,
}

/// Applies a function of tiles to all elements of the operands, of which `M` is the number.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute), and the function fills the output of a tile, of the type of the
/// operand.
pub(crate) unsafe fn each_tile<const N: usize, const M: usize>(
    dst: &Operand<RawBuffer>,
    inputs: [&Operand<RawBuffer>; N],
    parallel: &dyn Parallel,
    function: &(dyn Fn(DenseTile<N>) + Sync),
) {
    const { assert!(M == N + 1, "one output, and the inputs") };
    let layouts: [_; M] = std::array::from_fn(|place| match place {
        0 => &dst.layout,
        _ => &inputs[place - 1].layout,
    });
    let walk = Walk::in_any_order(layouts);
    // SAFETY: passed on.
    let (output, inputs) = unsafe {
        let mut place = 0;
        let inputs = inputs.map(|input| {
            place += 1;
            UntypedInput::new(input, place, dst)
        });
        (UntypedOutput::new(dst, 0).of_elements(walk.elements()), inputs)
    };
    each_block(&walk, parallel, &|start, len| {
        // Room for elements of any size.
        let mut values = [const { BlockBuffer::<u64>::new() }; N];
        let mut results = BlockBuffer::<u64>::new();
        let mut from = [std::ptr::null(); N];
        // SAFETY: blocks are disjoint parts of the output; an input that is the output is read
        // before the same elements are written.
        unsafe {
            for ((from, input), values) in from.iter_mut().zip(&inputs).zip(&mut values) {
                *from = input.read(&walk, start, len, values.as_mut_ptr());
            }
            output.write(&walk, start, len, results.as_mut_ptr(), |to| {
                function(DenseTile { to, from, count: len });
            });
        }
    });
}

impl<const N: usize> DenseTile<N> {
    /// Applies a function of blocks in the types that are computed in.
    ///
    /// # Safety
    ///
    /// The inputs are of type `S` and the output is of type `D`; the function fills its output. What else the
    /// maker of the tile promised still holds.
    #[inline(always)]
    pub unsafe fn apply<S: Stored, D: Stored>(
        self,
        function: impl Fn([&[S::Compute]; N], &mut [MaybeUninit<D::Compute>]),
    ) {
        let DenseTile { to, from, count } = self;
        // SAFETY: passed on; a type that needs no conversion is the same in memory.
        unsafe {
            if S::DIRECT && D::DIRECT {
                let from =
                    from.map(|from| std::slice::from_raw_parts(from.cast::<S::Compute>(), count));
                return function(from, std::slice::from_raw_parts_mut(to.cast(), count));
            }
            let mut wide: [BlockBuffer<S::Compute>; N] =
                std::array::from_fn(|_| BlockBuffer::new());
            let mut results = BlockBuffer::<D::Compute>::new();
            for (first, len) in blocks(count, BLOCK) {
                for (from, wide) in from.iter().zip(&mut wide) {
                    let from = std::slice::from_raw_parts(from.cast::<S>().add(first), len);
                    S::widen_run(from, wide.first(len));
                }
                let mut values = wide.iter_mut();
                let values = std::array::from_fn(|_| {
                    let values = values.next().expect("as many as inputs").first(len);
                    values.assume_init_ref()
                });
                function(values, results.first(len));
                let to = to.cast::<MaybeUninit<D>>().add(first);
                let to = std::slice::from_raw_parts_mut(to, len);
                D::narrow_run(results.first(len).assume_init_ref(), to);
            }
        }
    }
}
