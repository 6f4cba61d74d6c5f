//! NonZero: the coordinates of elements other than zero.

use millstream_core::{Operand, RawBuffer};

use super::{Numbers, each_flagged, store_count};
use crate::kernels::shared::block::BlockBuffer;
use crate::kernels::shared::fault::Result;
use crate::kernels::shared::number::with_bits;
use crate::kernels::shared::parallel::{Parallel, parallel_for};
use crate::kernels::shared::untyped::UntypedInput;
use crate::kernels::shared::walk::Walk;

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(crate) unsafe fn nonzero(
    indices: &Operand<RawBuffer>,
    count: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) -> Result {
    let shape = src.layout.shape();
    let walk = Walk::in_order([&src.layout]);
    let elements = walk.elements();
    // SAFETY: passed on.
    let numbers = unsafe { Numbers::of(indices, 1) };
    let row = indices.layout.strides()[0];
    let found = |place: usize, index: usize| {
        let mut rest = index;
        for axis in (0..shape.len()).rev() {
            // SAFETY: each place of each row is written once.
            unsafe { numbers.set(axis * row, place, rest % shape[axis]) };
            rest /= shape[axis];
        }
    };
    // SAFETY: passed on.
    let input = unsafe { UntypedInput::apart(src, 0) };
    let dtype = src.layout.dtype();
    let flags = |first: usize, flags: &mut [bool]| {
        let mut scratch = BlockBuffer::<u64>::new();
        // SAFETY: the elements belong to the input, which nobody writes.
        let values = unsafe { input.read(&walk, first, flags.len(), scratch.as_mut_ptr()) };
        with_bits!(dtype, Bits => {
            // Both zeros of a floating-point type are zero.
            let sign = if dtype.is_float() { 1 << (Bits::BITS - 1) } else { 0 };
            // SAFETY: bits of the size of the elements stand for them.
            let values = unsafe { std::slice::from_raw_parts(values.cast::<Bits>(), flags.len()) };
            for (flag, &value) in flags.iter_mut().zip(values) {
                *flag = value & !sign != 0;
            }
        });
    };
    let total = each_flagged(elements, parallel, flags, found)?;
    parallel_for(parallel, elements - total, shape.len(), |range| {
        for axis in 0..shape.len() {
            for place in range.clone() {
                // SAFETY: these places are behind those that were found.
                unsafe { numbers.set(axis * row, total + place, 0) };
            }
        }
    });
    // SAFETY: passed on.
    unsafe { store_count(count, total) };
    Ok(())
}
