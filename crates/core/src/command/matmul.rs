//! Matrix products.

use super::{Activation, BufferLike, Command, Op, Operand};
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
    /// `a` is `[…, m, k]`, `b` is `[…, k, n]`, and `dst` is `[…, m, n]`. Leading axes of `a` and `b` broadcast to
    /// those of `dst`; bias and residual broadcast to `dst`. A transposed operand is an operand with a transposed
    /// layout.
    ///
    /// Sums are kept in `f32` (`f64` for `f64`), in an order that depends on `k` alone. Products of 32-bit or 64-bit
    /// integers are exact and wrap around; they take no scale and no activation.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::command::{Activation, Command};
    /// use millstream::memory::Layout;
    /// use millstream::{DType, Device};
    ///
    /// let stream = Device::cpu()?.stream()?;
    /// let layout = |shape: &[usize]| Layout::contiguous(DType::F32, shape);
    /// let (x, y, z) = (stream.allocate(24)?, stream.allocate(48)?, stream.allocate(32)?);
    /// let (a, b) = (x.operand(layout(&[2, 3])?), y.operand(layout(&[3, 4])?));
    /// let dst = z.operand(layout(&[2, 4])?);
    /// stream.record(Command::matmul(dst, a, b, None, None, 1.0, Activation::Relu)?)?;
    /// # stream.synchronize()?;
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Ranks below 2, sizes that do not match, types that differ, types that are neither floating point nor integers
    /// of 32 or 64 bits, or operands that do not fit their buffers or overlap.
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
        let epilogue =
            Epilogue { scale, bias: bias.is_some(), residual: residual.is_some(), activation };
        let mut command = Self::of(Op::MatMul { epilogue });
        command.product(dst, a, b, bias, residual)?;
        Ok(command)
    }

    /// Adds the operands of a product and checks them. Each operand is copied once.
    #[inline]
    pub(super) fn product(
        &mut self,
        dst: Operand<B>,
        a: Operand<B>,
        b: Operand<B>,
        bias: Option<Operand<B>>,
        residual: Option<Operand<B>>,
    ) -> Result<()> {
        self.push(dst.buffer, &dst.layout);
        self.outputs = 1;
        self.push(a.buffer, &a.layout);
        self.push(b.buffer, &b.layout);
        if let Some(Operand { buffer, ref layout }) = bias {
            self.push(buffer, layout);
        }
        if let Some(Operand { buffer, ref layout }) = residual {
            self.push(buffer, layout);
        }
        self.fit()?;
        self.check()
    }
}
