//! Matrix products with weights of few bits.

use super::{Activation, BufferLike, Command, Epilogue, Op, Operand};
use crate::Result;

/// Quantized weights in blocks along k. Each block has its own scale: a weight stands for `(weight - zero) · scale`.
/// [`Op::MatMulBlocks`] describes the memory format.
#[derive(Clone, Copy, Debug)]
pub struct BlockWeights<B> {
    /// Bits of a weight: 2, 4 or 8.
    pub bits: u8,
    /// Weights in a block: a power of two from 16 to 256.
    pub block: u16,
    /// The packed weights.
    pub weights: Operand<B>,
    /// A scale for each block.
    pub scales: Operand<B>,
    /// A zero point for each block, as numbers or packed. If absent, it is the middle of the range.
    pub zeros: Option<Operand<B>>,
}

impl<B: BufferLike> Command<B> {
    /// `dst = activation(scale · a × b + bias + residual)`, where `b` has 2, 4 or 8 bits: MatMulNBits of ONNX
    /// Runtime.
    ///
    /// `a` is `[…, m, k]` of `f32`, `f16` or `bf16`, and `dst` is `[…, m, n]`. Leading axes of `a`, bias and residual
    /// broadcast to `dst`. Weights are converted to `f32` before they are multiplied. Sums are kept in `f32`, in an
    /// order that depends on `k` alone.
    ///
    /// # Errors
    ///
    /// Another number of bits or size of blocks, types or shapes that do not match, weights that are not dense,
    /// or operands that do not fit their buffers or overlap.
    pub fn matmul_blocks(
        dst: Operand<B>,
        a: Operand<B>,
        b: BlockWeights<B>,
        bias: Option<Operand<B>>,
        residual: Option<Operand<B>>,
        scale: f32,
        activation: Activation,
    ) -> Result<Self> {
        let epilogue =
            Epilogue { scale, bias: bias.is_some(), residual: residual.is_some(), activation };
        let BlockWeights { bits, block, weights, scales, zeros } = b;
        let op = Op::MatMulBlocks { bits, block, zeros: zeros.is_some(), epilogue };
        let inputs = [a, weights, scales].into_iter().chain(zeros).chain(bias).chain(residual);
        Self::new(op, [dst], inputs)
    }
}
