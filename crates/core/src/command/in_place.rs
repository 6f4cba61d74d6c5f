//! Which operations may write over what they read.

use super::Op;

/// Whether an output may be the same memory as an input. Both must then have the same layout, so that each element is
/// read before it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum InPlace {
    /// No input.
    No,
    /// The first input only: the others are read again after parts of the output were written.
    FirstInput,
    /// Any input.
    AnyInput,
}

impl InPlace {
    /// Whether an output may use the memory of the input with this index.
    pub(super) fn allows(self, input: usize) -> bool {
        match self {
            InPlace::No => false,
            InPlace::FirstInput => input == 0,
            InPlace::AnyInput => true,
        }
    }
}

impl Op {
    /// Which inputs may be the memory of an output.
    pub(super) fn in_place(&self) -> InPlace {
        match self {
            // If a norm has one row, its weights have the layout of the output, so only the first input is allowed.
            // Mean and rstd have the layout of an input only if each row is one element; they are written after that
            // element was read.
            Op::Copy { .. }
            | Op::Unary { .. }
            | Op::Binary { .. }
            | Op::Where
            | Op::Clip { .. }
            | Op::Chain { .. }
            | Op::LayerNorm { .. }
            | Op::RmsNorm { .. }
            | Op::GroupNorm { .. } => InPlace::AnyInput,
            Op::CumSum { .. }
            | Op::Softmax { .. }
            | Op::ScatterElements { .. }
            | Op::ScatterNd { .. }
            | Op::CacheWrite { .. }
            | Op::Rope { .. } => InPlace::FirstInput,
            Op::Fill { .. }
            | Op::Iota { .. }
            | Op::Reduce { .. }
            | Op::MatMul { .. }
            | Op::PackWeights { .. }
            | Op::MatMulPacked { .. }
            | Op::MatMulBlocks { .. }
            | Op::Conv { .. }
            | Op::ConvTranspose { .. }
            | Op::Pool { .. }
            | Op::Gather { .. }
            | Op::GatherElements { .. }
            | Op::GatherNd { .. }
            | Op::Embedding
            | Op::TopK { .. }
            | Op::Resize { .. }
            | Op::Pad { .. }
            | Op::Reverse { .. }
            | Op::DeformConv { .. }
            | Op::GridSample { .. }
            | Op::RoiAlign { .. }
            | Op::NonZero
            | Op::Compress { .. }
            | Op::Unique { .. }
            | Op::NonMaxSuppression { .. }
            | Op::Attention { .. }
            | Op::Recurrent { .. }
            | Op::Dft { .. }
            | Op::Stft { .. }
            | Op::Quantize { .. }
            | Op::Dequantize { .. }
            | Op::DynamicQuantize { .. }
            | Op::MatMulInteger { .. }
            | Op::ConvInteger { .. }
            | Op::Random { .. }
            | Op::Upload { .. }
            | Op::Download { .. }
            | Op::Timestamp => InPlace::No,
        }
    }
}
