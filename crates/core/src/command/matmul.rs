//! Matrix products.

use super::check::Check;
use super::{Activation, BufferLike, Command, Op, Operand};
use crate::{Layout, Result};

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
        mut a: Operand<B>,
        mut b: Operand<B>,
        bias: Option<Operand<B>>,
        residual: Option<Operand<B>>,
        scale: f32,
        activation: Activation,
    ) -> Result<Self> {
        let check = Check("matmul");
        check.float(&dst.layout)?;
        for input in [Some(&a), Some(&b), bias.as_ref(), residual.as_ref()].into_iter().flatten() {
            check.same_dtype(&input.layout, &dst.layout)?;
        }
        check.stretch_product(&dst.layout, &mut a.layout, &mut b.layout)?;
        let epilogue =
            Epilogue { scale, bias: bias.is_some(), residual: residual.is_some(), activation };
        let mut command = Self::of(Op::MatMul { epilogue });
        command.push(dst.buffer, &dst.layout);
        command.push(a.buffer, &a.layout);
        command.push(b.buffer, &b.layout);
        command.finish_product(&check, &dst.layout, bias, residual)?;
        Ok(command)
    }

    /// Adds what a product has beside its output and factors, and checks all operands.
    pub(super) fn finish_product(
        &mut self,
        check: &Check,
        output: &Layout,
        bias: Option<Operand<B>>,
        residual: Option<Operand<B>>,
    ) -> Result<()> {
        self.outputs = 1;
        self.push_stretched(check, bias, output)?;
        self.push_stretched(check, residual, output)?;
        self.check()
    }

    /// Adds an operand, if there is one, broadcast to the shape of `output`.
    fn push_stretched(
        &mut self,
        check: &Check,
        operand: Option<Operand<B>>,
        output: &Layout,
    ) -> Result<()> {
        let Some(Operand { buffer, ref layout }) = operand else { return Ok(()) };
        self.push(buffer, layout);
        self.operands.last_mut().map_or(Ok(()), |last| check.stretch(&mut last.layout, output))
    }
}
