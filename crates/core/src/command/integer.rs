//! Matrix products of 8-bit integers.

use smallvec::SmallVec;

use super::check::{Check, matrices_like};
use super::{BufferLike, Command, Op, Operand};
use crate::{DType, Layout, Result};

impl<B: BufferLike> Command<B> {
    /// `dst = (a - a_zero) × (b - b_zero)` over the last two axes, of 8-bit integers to `i32`.
    ///
    /// `a` is `[…, m, k]`, `b` is `[…, k, n]`, each `u8` or `i8`; leading axes broadcast to those of
    /// `dst`, which is `[…, m, n]`. A zero point has the type of its matrix and is one number, one for
    /// each row of `a` (`[m]` or `[…, m, 1]`), or one for each column of `b` (`[n]` or `[…, 1, n]`).
    /// Results are exact; sums beyond `i32` wrap around.
    ///
    /// # Errors
    ///
    /// Ranks below 2, sizes or types that do not match, or operands that do not fit their buffers or
    /// overlap.
    pub fn matmul_integer(
        dst: Operand<B>,
        a: Operand<B>,
        b: Operand<B>,
        a_zero: Option<Operand<B>>,
        b_zero: Option<Operand<B>>,
    ) -> Result<Self> {
        let check = Check("matmul_integer");
        check.dtype(&dst.layout, DType::I32)?;
        check.byte(&a.layout)?;
        check.byte(&b.layout)?;
        let (a_layout, b_layout) = check.product(&dst.layout, &a.layout, &b.layout)?;
        let op = Op::MatMulInteger { a_zero: a_zero.is_some(), b_zero: b_zero.is_some() };
        let mut inputs = SmallVec::<[Operand<B>; 4]>::new();
        inputs.push(Operand { buffer: a.buffer, layout: a_layout });
        inputs.push(Operand { buffer: b.buffer, layout: b_layout });
        let rank = dst.layout.rank();
        let (m, n) = (dst.layout.shape()[rank - 2], dst.layout.shape()[rank - 1]);
        for (zero, shape, matrix) in [
            (a_zero, matrices_like(&dst.layout, m, 1), &a_layout),
            (b_zero, matrices_like(&dst.layout, 1, n), &b_layout),
        ] {
            let Some(zero) = zero else { continue };
            check.same_dtype(&zero.layout, matrix)?;
            // A vector for rows stands upright.
            let rows = shape[rank - 1] == 1 && zero.layout.rank() == 1;
            let layout = if rows { column(&zero.layout)? } else { zero.layout };
            let Ok(layout) = layout.broadcast_to(&shape) else {
                return check.fail(format!(
                    "a zero point of shape {:?} does not broadcast to {:?}",
                    zero.layout.shape(),
                    shape
                ));
            };
            inputs.push(Operand { buffer: zero.buffer, layout });
        }
        Self::assemble(op, [dst], inputs)
    }
}

fn column(vector: &Layout) -> Result<Layout> {
    let (size, stride) = (vector.shape()[0], vector.strides()[0]);
    Layout::strided(vector.dtype(), &[size, 1], &[stride, 0], vector.offset())
}
