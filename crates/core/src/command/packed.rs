//! Weights that are packed once, and products with them.

use super::matmul::Epilogue;
use super::{Activation, BufferLike, Command, Op, Operand};
use crate::Result;

impl<B: BufferLike> Command<B> {
    /// `packed = weights`, in the order in which matrix products of this device read them.
    ///
    /// `weights` is `[k, n]`, with any strides. [`Device::packed_layout`](crate::Device::packed_layout) gives the
    /// size of `packed`. The contents have a meaning only for that device in this process. Pack weights once when
    /// they are loaded, settle the packed buffer, and drop the original.
    ///
    /// # Errors
    ///
    /// Weights that are not a matrix of a floating-point type, a `packed` that is not dense bytes, or operands that
    /// do not fit their buffers or overlap. If `packed` has the wrong size, the Command fails when it is executed.
    pub fn pack_weights(packed: Operand<B>, weights: Operand<B>) -> Result<Self> {
        let op = Op::PackWeights { bytes: packed.layout.elements() };
        Self::new(op, [packed], [weights])
    }

    /// `dst = activation(scale · a × b + bias + residual)`, where `packed` was made from `b` by
    /// [`pack_weights`](Self::pack_weights) on the same device.
    ///
    /// `a` is `[…, m, k]`, `dst` is `[…, m, n]`, and the weights were `[k, n]` of the same element type. Leading axes
    /// of `a`, bias and residual broadcast to `dst`. The result has the same bits as that of
    /// [`matmul`](Self::matmul).
    ///
    /// # Errors
    ///
    /// As for [`matmul`](Self::matmul), and a `packed` that is not dense bytes. If the packed weights had another
    /// shape and therefore another size, the Command fails when it is executed.
    #[allow(clippy::too_many_arguments)]
    pub fn matmul_packed(
        dst: Operand<B>,
        a: Operand<B>,
        packed: Operand<B>,
        bias: Option<Operand<B>>,
        residual: Option<Operand<B>>,
        scale: f32,
        activation: Activation,
    ) -> Result<Self> {
        let epilogue =
            Epilogue { scale, bias: bias.is_some(), residual: residual.is_some(), activation };
        let columns = dst.layout.shape().last().copied().unwrap_or(0);
        let mut command = Self::of(Op::MatMulPacked { columns, epilogue });
        command.product(dst, a, packed, bias, residual)?;
        Ok(command)
    }
}

#[cfg(test)]
mod tests;
