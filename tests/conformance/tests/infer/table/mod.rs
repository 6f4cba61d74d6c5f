//! A good Command of every kind, and what is said where it is not good.

mod compact;
mod elements;
mod places;
mod products;
mod rows;
mod windows;

use millstream_core::{Activation, DType, Epilogue, Layout, Op, OpKind};

use crate::spoil::{Good, Part};

const F32: DType = DType::F32;
const I64: DType = DType::I64;
const U8: DType = DType::U8;

type Names = &'static [&'static str];

fn input(
    name: &'static str,
    dtype: DType,
    shape: &[usize],
    refused: &'static str,
    blamed: Names,
) -> Part {
    let layout = Layout::contiguous(dtype, shape).expect("a small shape");
    Part { name, layout, refused, blamed }
}

/// With outputs that are inferred, by name.
fn row<const N: usize, const M: usize, const P: usize>(
    op: Op,
    outputs: [(&'static str, &'static str, Names); M],
    inputs: [Part; N],
    parameters: [(&'static str, Op); P],
) -> Good {
    let layouts: Vec<&Layout> = inputs.iter().map(|part| &part.layout).collect();
    let made = op.infer(&layouts).unwrap_or_else(|error| panic!("{error}"));
    let part = |((name, refused, blamed), &layout)| Part { name, layout, refused, blamed };
    let outputs = outputs.into_iter().zip(&made).map(part).collect();
    Good { op, inputs: inputs.into(), outputs, parameters: parameters.into() }
}

/// An output whose shape follows from the inputs.
const DST: (&str, &str, Names) = ("dst", "type rank size", &[]);

const fn sums() -> Epilogue {
    Epilogue { scale: 0.5, bias: true, residual: true, activation: Activation::Relu }
}

pub fn good(kind: OpKind) -> Good {
    match kind {
        OpKind::Fill => elements::fill(),
        OpKind::Iota => elements::iota(),
        OpKind::Copy => elements::copy(),
        OpKind::Unary => elements::unary(),
        OpKind::Binary => elements::binary(),
        OpKind::Where => elements::choose(),
        OpKind::Clip => elements::clip(),
        OpKind::Chain => elements::chain(),
        OpKind::Reduce => rows::reduce(),
        OpKind::CumSum => rows::cumsum(),
        OpKind::Softmax => rows::softmax(),
        OpKind::LayerNorm => rows::layer_norm(),
        OpKind::RmsNorm => rows::rms_norm(),
        OpKind::GroupNorm => rows::group_norm(),
        OpKind::MatMul => products::matmul(),
        OpKind::PackWeights => products::pack_weights(),
        OpKind::MatMulPacked => products::matmul_packed(),
        OpKind::Conv => windows::conv(),
        OpKind::ConvTranspose => windows::conv_transpose(),
        OpKind::Pool => windows::pool(),
        OpKind::Gather => places::gather(),
        OpKind::Embedding => places::embedding(),
        OpKind::GatherElements => places::gather_elements(),
        OpKind::GatherNd => places::gather_nd(),
        OpKind::ScatterElements => places::scatter_elements(),
        OpKind::ScatterNd => places::scatter_nd(),
        OpKind::CacheWrite => places::cache_write(),
        OpKind::Rope => places::rope(),
        OpKind::TopK => rows::top_k(),
        OpKind::Resize => windows::resize(),
        OpKind::Pad => windows::pad(),
        OpKind::Reverse => places::reverse(),
        OpKind::DeformConv => windows::deform_conv(),
        OpKind::GridSample => places::grid_sample(),
        OpKind::RoiAlign => places::roi_align(),
        OpKind::NonZero => compact::nonzero(),
        OpKind::Compress => compact::compress(),
        OpKind::Unique => compact::unique(),
        OpKind::NonMaxSuppression => compact::suppress(),
        OpKind::Attention => products::attention(),
        OpKind::Recurrent => products::recurrent(),
        OpKind::Dft => rows::dft(),
        OpKind::Stft => rows::stft(),
        OpKind::Quantize => elements::quantize(),
        OpKind::Dequantize => elements::dequantize(),
        OpKind::DynamicQuantize => elements::dynamic_quantize(),
        OpKind::MatMulBlocks => products::matmul_blocks(),
        OpKind::MatMulInteger => products::matmul_integer(),
        OpKind::ConvInteger => windows::conv_integer(),
        OpKind::Random => elements::random(),
        OpKind::Upload => elements::upload(),
        OpKind::Download => elements::download(),
        OpKind::Timestamp => elements::timestamp(),
    }
}
