//! One step of a chain on a tile.

use millstream_core::{Chain, ChainOp};

use crate::kernels::shared::conversion::Conversion;
use crate::kernels::shared::elementwise::DenseTile;
use crate::kernels::{binary, copy, select, unary};

/// Runs step `place` of a chain on `len` elements, as the operation that it stands for would.
///
/// # Safety
///
/// `from` has so many elements of the types that the step reads, and `to` room for as many of the type that it
/// makes; they are aligned, and do not overlap.
#[inline]
pub(super) unsafe fn run(
    chain: &Chain,
    place: usize,
    from: [*const u8; 3],
    to: *mut u8,
    len: usize,
) {
    let step = &chain.steps()[place];
    let (first, made) = (chain.dtype_of(step.terms()[0]), chain.results()[place]);
    let one = DenseTile { to, from: [from[0]], count: len };
    // SAFETY: passed on; the types were checked when the chain was made.
    unsafe {
        match step.op() {
            ChainOp::Cast { dtype } => copy::convert(Conversion::new(first, dtype), one),
            ChainOp::Unary { op } => unary::apply(op, first, made, one),
            ChainOp::Binary { op } => {
                binary::apply(
                    op,
                    first,
                    made,
                    DenseTile { to, from: [from[0], from[1]], count: len },
                );
            }
            ChainOp::Where => {
                select::choose(made, DenseTile { to, from, count: len });
            }
            ChainOp::Clip { min, max } => select::limit(min, max, first, one),
        }
    }
}
