//! The fixed cases, one room per family of operations.

mod attention;
mod binary;
mod blocks;
mod cache;
mod chain;
mod compact;
mod conv;
mod copy;
mod cumsum;
mod deform_conv;
mod dynamic;
mod elementwise;
mod fill;
mod fourier;
mod gather;
mod grid_sample;
mod host;
mod integer;
mod iota;
mod layer_norm;
pub(crate) mod matmul;
mod norms;
mod pad;
mod pool;
mod quantize;
mod random;
mod recurrent;
mod reduce;
mod rescale;
mod resize;
mod reverse;
mod roi_align;
mod scatter;
mod select;
mod softmax;
mod storage;
mod suppress;
mod top_k;
mod unary;

pub(crate) use unary::OPS as UNARY_OPS;
pub(crate) use unary::domain;

use millstream_core::{DType, OpKind};

use crate::Case;

pub(crate) const FLOATS: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];

/// The types that operations compute with.
pub(crate) const TYPES: [DType; 13] = DType::COMPUTED;

/// Those but for `bool`.
pub(crate) const NUMBERS: [DType; 12] = [
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::F64,
    DType::I8,
    DType::U8,
    DType::I32,
    DType::I64,
    DType::I16,
    DType::U16,
    DType::U32,
    DType::U64,
];

/// Enough elements that a device splits the work.
const LARGE: usize = 131_077;

/// The kinds that the suite has cases for.
pub(crate) const COVERED: &[OpKind] = &[
    OpKind::Fill,
    OpKind::Iota,
    OpKind::Copy,
    OpKind::Unary,
    OpKind::Binary,
    OpKind::Where,
    OpKind::Clip,
    OpKind::Chain,
    OpKind::Reduce,
    OpKind::CumSum,
    OpKind::Softmax,
    OpKind::LayerNorm,
    OpKind::RmsNorm,
    OpKind::GroupNorm,
    OpKind::MatMul,
    OpKind::Pool,
    OpKind::Gather,
    OpKind::GatherElements,
    OpKind::GatherNd,
    OpKind::ScatterElements,
    OpKind::ScatterNd,
    OpKind::CacheWrite,
    OpKind::Rope,
    OpKind::Embedding,
    OpKind::TopK,
    OpKind::Resize,
    OpKind::Pad,
    OpKind::Reverse,
    OpKind::GridSample,
    OpKind::RoiAlign,
    OpKind::DeformConv,
    OpKind::NonZero,
    OpKind::Compress,
    OpKind::Unique,
    OpKind::NonMaxSuppression,
    OpKind::Conv,
    OpKind::ConvTranspose,
    OpKind::Attention,
    OpKind::Recurrent,
    OpKind::Dft,
    OpKind::Stft,
    OpKind::Quantize,
    OpKind::Dequantize,
    OpKind::DynamicQuantize,
    OpKind::MatMulBlocks,
    OpKind::MatMulInteger,
    OpKind::ConvInteger,
    OpKind::Random,
    OpKind::Upload,
    OpKind::Download,
    OpKind::Timestamp,
];

/// Integers that programs go the same ways with as with the usual ones.
const RARE: [DType; 4] = [DType::I16, DType::U16, DType::U32, DType::U64];

/// Every fixed case of one kind of operation; none for a kind that the suite does not know yet.
pub fn cases(kind: OpKind) -> Vec<Case> {
    let mut cases = all_cases(kind);
    let mut seen = 0;
    // Of rare types every fifth case will do, and those of values that are apt to be handled wrongly.
    cases.retain(|case| {
        let rare = |part: &str| RARE.iter().any(|dtype| dtype.name() == part);
        let kept = case.name.contains("special") || case.name.contains("ties");
        if kept || !case.name.split(['/', '-']).any(rare) {
            return true;
        }
        seen += 1;
        seen % 5 == 1
    });
    cases
}

fn all_cases(kind: OpKind) -> Vec<Case> {
    match kind {
        OpKind::Fill => fill::cases(),
        OpKind::Iota => iota::cases(),
        OpKind::Copy => copy::cases(),
        OpKind::Unary => unary::cases(),
        OpKind::Binary => binary::cases(),
        OpKind::Where => select::wheres(),
        OpKind::Clip => select::clips(),
        OpKind::Chain => chain::cases(),
        OpKind::Reduce => reduce::cases(),
        OpKind::CumSum => cumsum::cases(),
        OpKind::Softmax => softmax::cases(),
        OpKind::LayerNorm => layer_norm::cases(),
        OpKind::RmsNorm => norms::rms(),
        OpKind::GroupNorm => norms::group(),
        OpKind::MatMul => matmul::cases(),
        OpKind::Pool => pool::cases(),
        OpKind::Gather => gather::along(),
        OpKind::GatherElements => gather::elements(),
        OpKind::GatherNd => gather::tuples(),
        OpKind::ScatterElements => scatter::elements(),
        OpKind::ScatterNd => scatter::tuples(),
        OpKind::CacheWrite => cache::writes(),
        OpKind::Rope => cache::ropes(),
        OpKind::Embedding => gather::embeddings(),
        OpKind::TopK => top_k::cases(),
        OpKind::Resize => resize::cases(),
        OpKind::Pad => pad::cases(),
        OpKind::Reverse => reverse::cases(),
        OpKind::GridSample => grid_sample::cases(),
        OpKind::RoiAlign => roi_align::cases(),
        OpKind::DeformConv => deform_conv::cases(),
        OpKind::NonZero => compact::nonzeros(),
        OpKind::Compress => compact::compressions(),
        OpKind::Unique => compact::uniques(),
        OpKind::NonMaxSuppression => suppress::cases(),
        OpKind::Conv => conv::forward(),
        OpKind::ConvTranspose => conv::transposed(),
        OpKind::Attention => attention::cases(),
        OpKind::Recurrent => recurrent::cases(),
        OpKind::Dft => fourier::whole(),
        OpKind::Stft => fourier::frames(),
        OpKind::Quantize => quantize::to_integers(),
        OpKind::Dequantize => quantize::from_integers(),
        OpKind::DynamicQuantize => dynamic::cases(),
        OpKind::MatMulBlocks => blocks::cases(),
        OpKind::MatMulInteger => integer::products(),
        OpKind::ConvInteger => integer::convolutions(),
        OpKind::Random => random::cases(),
        OpKind::Upload => host::uploads(),
        OpKind::Download => host::downloads(),
        OpKind::Timestamp => host::timestamps(),
        // What packed weights look like is the device's own affair, so no case can hold them.
        OpKind::PackWeights | OpKind::MatMulPacked => Vec::new(),
    }
}
