//! Which Commands the CPU device executes.

use millstream_core::OpKind;

/// Whether the CPU device has a kernel for this kind.
pub fn supports(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Fill
            | OpKind::Iota
            | OpKind::Copy
            | OpKind::Unary
            | OpKind::Binary
            | OpKind::Where
            | OpKind::Clip
            | OpKind::Chain
            | OpKind::Reduce
            | OpKind::CumSum
            | OpKind::Softmax
            | OpKind::LayerNorm
            | OpKind::RmsNorm
            | OpKind::GroupNorm
            | OpKind::MatMul
            | OpKind::Pool
            | OpKind::Gather
            | OpKind::GatherElements
            | OpKind::GatherNd
            | OpKind::ScatterElements
            | OpKind::ScatterNd
            | OpKind::CacheWrite
            | OpKind::Rope
            | OpKind::Embedding
            | OpKind::TopK
            | OpKind::Resize
            | OpKind::Pad
            | OpKind::Reverse
            | OpKind::DeformConv
            | OpKind::GridSample
            | OpKind::RoiAlign
            | OpKind::NonZero
            | OpKind::Compress
            | OpKind::Unique
            | OpKind::NonMaxSuppression
            | OpKind::Conv
            | OpKind::ConvTranspose
            | OpKind::Attention
            | OpKind::Recurrent
            | OpKind::Dft
            | OpKind::Stft
            | OpKind::Quantize
            | OpKind::Dequantize
            | OpKind::DynamicQuantize
            | OpKind::MatMulInteger
            | OpKind::ConvInteger
            | OpKind::PackWeights
            | OpKind::MatMulPacked
            | OpKind::MatMulBlocks
            | OpKind::Random
            | OpKind::Upload
            | OpKind::Download
            | OpKind::Timestamp
    )
}
