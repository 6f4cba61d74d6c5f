//! From Commands to launches, one file per family of operations.

pub(crate) mod attention;
pub(crate) mod attention_matrices;
pub(crate) mod attention_tensor_cores;
pub(crate) mod attention_tiles;
pub(crate) mod binary;
pub(crate) mod blocks;
pub(crate) mod cache_write;
pub(crate) mod chain;
pub(crate) mod clip;
pub(crate) mod compact;
pub(crate) mod conv;
pub(crate) mod conv_depthwise;
mod conv_pointwise;
pub(crate) mod conv_tensor_cores;
pub(crate) mod copy;
pub(crate) mod cumsum;
pub(crate) mod deform_conv;
pub(crate) mod dynamic;
pub(crate) mod epilogue;
pub(crate) mod fill;
pub(crate) mod fourier;
pub(crate) mod gather;
pub(crate) mod gemv;
pub(crate) mod grid_sample;
pub(crate) mod index;
pub(crate) mod iota;
pub(crate) mod matmul;
pub(crate) mod matmul_few_rows;
pub(crate) mod matmul_matrices;
pub(crate) mod matmul_pipelined;
pub(crate) mod matmul_pipelined_f32;
pub(crate) mod matmul_split_k;
pub(crate) mod matmul_tensor_cores;
pub(crate) mod norm;
pub(crate) mod pad;
pub(crate) mod pool;
mod product;
pub(crate) mod quantize;
pub(crate) mod quantize_packed;
pub(crate) mod random;
pub(crate) mod recurrent;
pub(crate) mod recurrent_params;
pub(crate) mod recurrent_weights;
pub(crate) mod reduce;
pub(crate) mod rescale;
pub(crate) mod resize;
pub(crate) mod reverse;
pub(crate) mod roi_align;
pub(crate) mod rope;
mod rows;
pub(crate) mod scatter;
pub(crate) mod select;
pub(crate) mod softmax;
pub(crate) mod softmax_columns;
pub(crate) mod storage;
pub(crate) mod suppress;
pub(crate) mod top_k;
pub(crate) mod unary;
pub(crate) mod unique;

use millstream_core::{BoundCommand, Error, Op, OpKind};

use crate::{Limits, Lowered};
use norm::Norm;

pub use copy::lower_copy;
pub use epilogue::lower_epilogue;
pub use gemv::lower_gemv;
pub use matmul_split_k::lower_split_k;
pub use matmul_tensor_cores::lower_tensor_cores;

/// The kinds that [`lower`] supports. One line per family.
#[rustfmt::skip]
const SUPPORTED: &[OpKind] = &[
    OpKind::Attention,
    OpKind::Binary,
    OpKind::CacheWrite,
    OpKind::Chain,
    OpKind::Clip,
    OpKind::Compress,
    OpKind::Conv,
    OpKind::ConvInteger,
    OpKind::ConvTranspose,
    OpKind::Copy,
    OpKind::CumSum,
    OpKind::DeformConv,
    OpKind::Dequantize,
    OpKind::Dft,
    OpKind::DynamicQuantize,
    OpKind::Embedding,
    OpKind::Fill,
    OpKind::Gather,
    OpKind::GatherElements,
    OpKind::GatherNd,
    OpKind::GridSample,
    OpKind::GroupNorm,
    OpKind::Iota,
    OpKind::LayerNorm,
    OpKind::MatMul,
    OpKind::MatMulBlocks,
    OpKind::MatMulInteger,
    OpKind::NonMaxSuppression,
    OpKind::NonZero,
    OpKind::Pad,
    OpKind::Pool,
    OpKind::Quantize,
    OpKind::Random,
    OpKind::Recurrent,
    OpKind::Reduce,
    OpKind::Resize,
    OpKind::Reverse,
    OpKind::RmsNorm,
    OpKind::RoiAlign,
    OpKind::Rope,
    OpKind::ScatterElements,
    OpKind::ScatterNd,
    OpKind::Softmax,
    OpKind::Stft,
    OpKind::TopK,
    OpKind::Unary,
    OpKind::Unique,
    OpKind::Where,
];

/// Whether [`lower`] supports this kind of operation.
pub fn supports(kind: OpKind) -> bool {
    SUPPORTED.contains(&kind)
}

/// The launches of a Command. `index` is its index in the batch, for fault records. A Command with an empty output
/// has no launches.
///
/// # Errors
///
/// [`Error::Unsupported`] for an operation that has no kernels, and for `f64` on a device that does not have it.
pub fn lower(command: &BoundCommand, index: u32, limits: &Limits) -> Result<Lowered, Error> {
    let op = command.op();
    if !limits.f64 && command.needs_f64() {
        return Err(unsupported(op, "there is no 64-bit floating point"));
    }
    match op {
        Op::Binary { op } => Ok(binary::lower(command, *op, limits)),
        Op::Chain { chain } => Ok(chain::lower(command, chain, limits)),
        Op::Clip { min, max } => Ok(clip::lower(command, *min, *max, limits)),
        Op::Copy { dtype: _, saturate } => Ok(copy::lower(command, *saturate, limits)),
        Op::Dft { axis, inverse, onesided, length: _ } => {
            Ok(fourier::lower_dft(command, usize::from(*axis), *inverse, *onesided, limits))
        }
        Op::Attention { params } => Ok(attention::lower(command, params, limits)),
        Op::Conv { params, epilogue } => Ok(conv::lower(command, params, epilogue, false, limits)),
        Op::ConvTranspose { params, epilogue } => {
            Ok(conv::lower(command, params, epilogue, true, limits))
        }
        Op::ConvInteger { params, src_zero: _, weight_zero: _, rescale } => {
            Ok(conv::lower_integer(command, params, rescale.as_ref(), limits))
        }
        Op::MatMul { epilogue } => Ok(matmul::lower(command, epilogue, limits)),
        Op::MatMulInteger { a_zero: _, b_zero: _, rescale } => {
            Ok(matmul::lower_integer(command, rescale.as_ref(), limits))
        }
        Op::MatMulBlocks { bits, block, zeros: _, epilogue } => {
            Ok(blocks::lower(command, (*bits, *block), epilogue, limits))
        }
        Op::Pool { params } => Ok(pool::lower(command, params, limits)),
        Op::Recurrent { params } => Ok(recurrent::lower(command, params, limits)),
        Op::Stft { frame, hop, .. } => {
            Ok(fourier::lower_stft(command, *frame as usize, *hop as usize, limits))
        }
        Op::CumSum { axis, exclusive, reverse, product } => {
            let flags = [*exclusive, *reverse, *product];
            Ok(cumsum::lower(command, usize::from(*axis), flags, limits))
        }
        Op::Fill { value, .. } => Ok(fill::lower(command, *value, limits)),
        Op::Iota { params } => Ok(iota::lower(command, params, limits)),
        Op::Gather { .. } | Op::Embedding | Op::GatherElements { .. } | Op::GatherNd { .. } => {
            Ok(gather::lower(command, index, limits))
        }
        Op::CacheWrite { axis, circular, positions: _ } => {
            Ok(cache_write::lower(command, usize::from(*axis), *circular, index, limits))
        }
        Op::Rope { interleaved, positions: _ } => {
            Ok(rope::lower(command, *interleaved, index, limits))
        }
        Op::DeformConv { params } => Ok(deform_conv::lower(command, params, limits)),
        Op::GridSample { mode, padding, align_corners } => {
            Ok(grid_sample::lower(command, (*mode, *padding), *align_corners, limits))
        }
        Op::RoiAlign { params } => Ok(roi_align::lower(command, *params, index, limits)),
        Op::Pad { params } => Ok(pad::lower(command, params, limits)),
        Op::Reverse { axes, batch_axis } => {
            Ok(reverse::lower(command, *axes, *batch_axis, index, limits))
        }
        Op::NonZero => Ok(compact::lower_nonzero(command, limits)),
        Op::Compress { axis } => {
            Ok(compact::lower_compress(command, axis.map(usize::from), limits))
        }
        Op::Unique { axis, sorted } => {
            unique::lower(command, axis.map(usize::from), *sorted, limits)
        }
        Op::NonMaxSuppression { most, overlap, score, centered } => {
            Ok(suppress::lower(command, *most, (*overlap, *score, *centered), limits))
        }
        Op::Quantize { .. } => Ok(quantize::lower(command, false, limits)),
        Op::Dequantize { .. } => Ok(quantize::lower(command, true, limits)),
        Op::DynamicQuantize { range, .. } => Ok(dynamic::lower(command, *range, limits)),
        Op::Random { distribution, seed, offset, spec: _ } => {
            Ok(random::lower(command, *distribution, (*seed, *offset), limits))
        }
        Op::Resize { params } => Ok(resize::lower(command, params, limits)),
        Op::ScatterElements { .. } | Op::ScatterNd { .. } => scatter::lower(command, index, limits),
        Op::TopK { axis, k: _, largest, sorted } => {
            top_k::lower(command, usize::from(*axis), (*largest, *sorted), limits)
        }
        Op::GroupNorm { groups, epsilon, weight: _, bias: _ } => {
            let norm = Norm { rms: false, epsilon: *epsilon };
            Ok(norm.over_groups(command, *groups as usize, limits))
        }
        Op::LayerNorm { axes, epsilon, weight: _, bias: _, moments: _ } => {
            let norm = Norm { rms: false, epsilon: *epsilon };
            Ok(norm.over_last(command, usize::from(*axes), limits))
        }
        Op::Reduce { op, axes } => Ok(reduce::lower(command, *op, *axes, limits)),
        Op::RmsNorm { axes, epsilon, weight: _ } => {
            let norm = Norm { rms: true, epsilon: *epsilon };
            Ok(norm.over_last(command, usize::from(*axes), limits))
        }
        Op::Softmax { axis, log } => Ok(softmax::lower(command, usize::from(*axis), *log, limits)),
        Op::Unary { op } => Ok(unary::lower(command, *op, limits)),
        Op::Where => Ok(select::lower(command, limits)),
        Op::PackWeights { .. }
        | Op::MatMulPacked { .. }
        | Op::Upload { .. }
        | Op::Download { .. }
        | Op::Timestamp => Err(unsupported(op, "no kernel does it")),
    }
}

fn unsupported(op: &Op, reason: &str) -> Error {
    Error::Unsupported { op: op.name(), device: "this device".into(), reason: reason.into() }
}

#[cfg(test)]
mod tests;
