//! Which Commands compute with 64-bit floating point, which some devices lack.

use super::{Command, Op, ResizeMode, ScatterReduction};
use crate::DType;

impl<B> Command<B> {
    /// Whether a device needs 64-bit floating point to execute it: it has an operand of `f64`, and does more than to move
    /// elements as they are, or to compare them, for which their bits will do.
    pub fn needs_f64(&self) -> bool {
        let mut operands = self.operands.iter();
        operands.any(|operand| operand.layout.dtype() == DType::F64) && self.computes()
            || self.steps_need_f64()
    }

    /// Whether a chain of other types has a step of this one.
    fn steps_need_f64(&self) -> bool {
        let Op::Chain { chain } = &self.op else { return false };
        chain.results().contains(&DType::F64)
    }

    fn computes(&self) -> bool {
        match &self.op {
            Op::Fill { .. }
            | Op::Where
            | Op::Gather { .. }
            | Op::Embedding
            | Op::GatherElements { .. }
            | Op::GatherNd { .. }
            | Op::Pad { .. }
            | Op::Reverse { .. }
            | Op::CacheWrite { .. }
            | Op::Compress { .. }
            | Op::TopK { .. }
            | Op::Unique { .. }
            | Op::Upload { .. }
            | Op::Download { .. } => false,
            Op::Copy { .. } => self.outputs()[0].layout.dtype() != self.inputs()[0].layout.dtype(),
            Op::ScatterElements { reduction, .. } | Op::ScatterNd { reduction } => {
                *reduction != ScatterReduction::Replace
            }
            Op::Resize { params } => !matches!(params.mode, ResizeMode::Nearest(_)),
            Op::Iota { .. }
            | Op::Unary { .. }
            | Op::Binary { .. }
            | Op::Chain { .. }
            | Op::Clip { .. }
            | Op::Reduce { .. }
            | Op::CumSum { .. }
            | Op::Softmax { .. }
            | Op::LayerNorm { .. }
            | Op::RmsNorm { .. }
            | Op::GroupNorm { .. }
            | Op::MatMul { .. }
            | Op::PackWeights { .. }
            | Op::MatMulPacked { .. }
            | Op::MatMulInteger { .. }
            | Op::MatMulBlocks { .. }
            | Op::Conv { .. }
            | Op::ConvTranspose { .. }
            | Op::ConvInteger { .. }
            | Op::DeformConv { .. }
            | Op::Pool { .. }
            | Op::GridSample { .. }
            | Op::RoiAlign { .. }
            | Op::Rope { .. }
            | Op::Attention { .. }
            | Op::Recurrent { .. }
            | Op::Dft { .. }
            | Op::Stft { .. }
            | Op::Quantize { .. }
            | Op::Dequantize { .. }
            | Op::DynamicQuantize { .. }
            | Op::Random { .. }
            | Op::NonZero
            | Op::NonMaxSuppression { .. }
            | Op::Timestamp => true,
        }
    }
}
