//! Fill, and copies between any two element types and layouts.

use std::mem::MaybeUninit;

use millstream_core::{Operand, RawBuffer, Scalar};

use crate::kernels::shared::block::base;
use crate::kernels::shared::conversion::Conversion;
use crate::kernels::shared::elementwise::{DenseTile, each_tile};
use crate::kernels::shared::number::{Stored, with_bits};
use crate::kernels::shared::parallel::Parallel;
use crate::kernels::shared::transpose;
use crate::kernels::shared::walk::Walk;
use crate::kernels::storage;

/// Gives every element one value.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn fill(dst: &Operand<RawBuffer>, value: Scalar, parallel: &dyn Parallel) {
    let dtype = dst.layout.dtype();
    let bytes = value.to_bytes(dtype);
    // SAFETY: passed on; all of a tile is filled.
    unsafe {
        each_tile::<0, 1>(dst, [], parallel, &|DenseTile { to, from: [], count }| {
            with_bits!(dtype, Bits => {
                let value = bytes.as_ptr().cast::<Bits>().read_unaligned();
                std::slice::from_raw_parts_mut(to.cast::<MaybeUninit<Bits>>(), count)
                    .fill(MaybeUninit::new(value));
            });
        });
    }
}

/// Copies, converting the element type.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn copy(
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    // SAFETY: passed on.
    unsafe { cast(dst, src, true, parallel) }
}

/// Copies, converting the element type. `saturate` is as for [`Op::Copy`](millstream_core::Op::Copy).
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn cast(
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    saturate: bool,
    parallel: &dyn Parallel,
) {
    let (to, from) = (dst.layout.dtype(), src.layout.dtype());
    // SAFETY: passed on; the types are those of the operands.
    unsafe {
        if to.is_storage() || from.is_storage() {
            return storage::copy(dst, src, saturate, parallel);
        }
        if to == from && with_bits!(to, Bits => transposed::<Bits>(dst, src, parallel)) {
            return;
        }
        let conversion = Conversion::new(from, to);
        each_tile::<1, 2>(dst, [src], parallel, &|tile| convert(conversion, tile));
    }
}

/// Copies operands of one type that lie across each other, or says that they do not.
unsafe fn transposed<T: Stored<Compute = T>>(
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) -> bool {
    let walk = Walk::in_any_order([&dst.layout, &src.layout]);
    // SAFETY: passed on. A copy in place has one layout for both, which is not transposed.
    unsafe { transpose::copy::<T>(&walk, base(dst), base(src), parallel) }
}

/// Converts the elements of a tile.
///
/// # Safety
///
/// The types are those of the tile.
#[inline]
pub(super) unsafe fn convert(conversion: Conversion, tile: DenseTile<1>) {
    let DenseTile { to, from: [from], count } = tile;
    // SAFETY: passed on.
    unsafe { conversion.run(from, to, count) }
}

#[cfg(test)]
mod tests;
