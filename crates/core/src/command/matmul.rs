//! Matrix products.

use super::check::Check;
use super::{Activation, BufferLike, Command, InPlace, Op, Operand};
use crate::Result;

/// What is done to each element of a product before it is stored:
/// `activation(scale · product + bias + residual)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epilogue {
    /// Multiplies the product.
    pub scale: f32,
    /// Whether a bias is given.
    pub bias: bool,
    /// Whether a residual is given.
    pub residual: bool,
    /// Applied last.
    pub activation: Activation,
}

impl Default for Epilogue {
    fn default() -> Self {
        Self { scale: 1.0, bias: false, residual: false, activation: Activation::None }
    }
}

impl<B: BufferLike> Command<B> {
    /// `dst = activation(scale · a × b + bias + residual)` over the last two axes.
    ///
    /// `a` is `[…, m, k]`, `b` is `[…, k, n]`, `dst` is `[…, m, n]`; leading axes of `a` and `b`
    /// broadcast to those of `dst`, bias and residual broadcast to `dst`. Transposed operands are
    /// transposed layouts. Sums are kept in `f32` (`f64` for `f64`), in an order that depends on `k`
    /// alone.
    ///
    /// # Errors
    ///
    /// Ranks below 2, sizes that do not match, types that differ or are not floating point, or operands
    /// that do not fit their buffers or overlap.
    #[allow(clippy::too_many_arguments)]
    pub fn matmul(
        dst: Operand<B>,
        a: Operand<B>,
        b: Operand<B>,
        bias: Option<Operand<B>>,
        residual: Option<Operand<B>>,
        scale: f32,
        activation: Activation,
    ) -> Result<Self> {
        let check = Check("matmul");
        check.float(&dst.layout)?;
        for input in [&a, &b].into_iter().chain(&bias).chain(&residual) {
            check.same_dtype(&input.layout, &dst.layout)?;
        }
        let (a_layout, b_layout) = check.product(&dst.layout, &a.layout, &b.layout)?;
        let epilogue =
            Epilogue { scale, bias: bias.is_some(), residual: residual.is_some(), activation };
        let mut inputs = smallvec::SmallVec::<[Operand<B>; 4]>::new();
        inputs.push(Operand { buffer: a.buffer, layout: a_layout });
        inputs.push(Operand { buffer: b.buffer, layout: b_layout });
        for extra in bias.into_iter().chain(residual) {
            inputs.push(check.broadcast(extra, &dst.layout)?);
        }
        Self::assemble(Op::MatMul { epilogue }, [dst], inputs, InPlace::No)
    }
}
