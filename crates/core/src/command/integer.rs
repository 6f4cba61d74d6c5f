//! Matrix products of 8-bit integers.

use super::{BufferLike, Command, Op, Operand};
use crate::Result;

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
        let op = Op::MatMulInteger { a_zero: a_zero.is_some(), b_zero: b_zero.is_some() };
        Self::new(op, [dst], [a, b].into_iter().chain(a_zero).chain(b_zero))
    }
}
