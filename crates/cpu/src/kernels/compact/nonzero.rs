//! Where elements are other than zero.

use millstream_core::{Operand, RawBuffer};

use super::{Numbers, each_flagged, store_count};
use crate::kernels::shared::block::{Input, Scratch, base};
use crate::kernels::shared::fault::Result;
use crate::kernels::shared::number::with_bits;
use crate::kernels::shared::parallel::{Parallel, share};
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
    let total = with_bits!(src.layout.dtype(), Bits => {
        // Both zeros of a floating-point type are zero.
        let sign = match src.layout.dtype().is_float() {
            true => 1 << (Bits::BITS - 1),
            false => 0,
        };
        // SAFETY: passed on; bits of the size of the elements stand for them.
        let input = Input::<Bits>::new(unsafe { base(src) }, 0, std::ptr::null::<Bits>());
        let flags = |first: usize, flags: &mut [bool]| {
            let mut scratch = Scratch::new();
            // SAFETY: the elements belong to the input, which nobody writes.
            let values = unsafe { input.read(&walk, first, flags.len(), &mut scratch) };
            for (flag, &value) in flags.iter_mut().zip(values) {
                *flag = value & !sign != 0;
            }
        };
        each_flagged(elements, parallel, flags, found)?
    });
    share(parallel, elements - total, shape.len(), |range| {
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
