//! From Commands to launches, one file per family of operations.

pub(crate) mod attention;
pub(crate) mod binary;
pub(crate) mod clip;
pub(crate) mod conv;
pub(crate) mod copy;
pub(crate) mod cumsum;
pub(crate) mod epilogue;
pub(crate) mod fill;
pub(crate) mod fourier;
pub(crate) mod gemv;
pub(crate) mod matmul;
pub(crate) mod norm;
pub(crate) mod pool;
mod product;
pub(crate) mod recurrent;
pub(crate) mod reduce;
mod rows;
pub(crate) mod select;
pub(crate) mod softmax;
pub(crate) mod unary;

use millstream_core::{BoundCommand, DType, Error, Op, OpKind};

use crate::{Limits, Lowered};
use norm::Norm;

pub use copy::lower_copy;
pub use epilogue::lower_epilogue;
pub use gemv::lower_gemv;

/// The kinds that [`lower`] knows. One line per family.
#[rustfmt::skip]
const SUPPORTED: &[OpKind] = &[
    OpKind::Attention,
    OpKind::Binary,
    OpKind::Clip,
    OpKind::Conv,
    OpKind::ConvInteger,
    OpKind::ConvTranspose,
    OpKind::Copy,
    OpKind::CumSum,
    OpKind::Dft,
    OpKind::Fill,
    OpKind::GroupNorm,
    OpKind::LayerNorm,
    OpKind::MatMul,
    OpKind::MatMulInteger,
    OpKind::Pool,
    OpKind::Recurrent,
    OpKind::Reduce,
    OpKind::RmsNorm,
    OpKind::Softmax,
    OpKind::Stft,
    OpKind::Unary,
    OpKind::Where,
];

/// Whether [`lower`] knows this kind of operation.
pub fn supports(kind: OpKind) -> bool {
    SUPPORTED.contains(&kind)
}

/// The launches of a Command. `index` is its place in its batch, for fault records. An empty output
/// gives no launches.
///
/// # Errors
///
/// [`Error::Unsupported`] for an operation that is not done by kernels, or `f64` on a device without.
pub fn lower(command: &BoundCommand, index: u32, limits: &Limits) -> Result<Lowered, Error> {
    // Only operations that read indices can meet a fault.
    let _ = index;
    let wide = |dtype: DType| dtype == DType::F64;
    let op = command.op();
    // Copies of f64 as it is move bytes; everything else computes.
    let moves = matches!(op, Op::Fill { .. } | Op::Copy);
    if !limits.f64 && !moves && command.accesses().any(|(_, operand)| wide(operand.layout.dtype()))
    {
        return Err(unsupported(op, "there is no 64-bit floating point"));
    }
    match op {
        Op::Binary { op } => Ok(binary::lower(command, *op, limits)),
        Op::Clip { min, max } => Ok(clip::lower(command, *min, *max, limits)),
        Op::Copy => copy::lower(command, limits),
        Op::Dft { axis, inverse, onesided } => {
            Ok(fourier::lower_dft(command, usize::from(*axis), *inverse, *onesided, limits))
        }
        Op::Attention { params } => Ok(attention::lower(command, params, limits)),
        Op::Conv { params, epilogue } => Ok(conv::lower(command, params, epilogue, false, limits)),
        Op::ConvTranspose { params, epilogue } => {
            Ok(conv::lower(command, params, epilogue, true, limits))
        }
        Op::ConvInteger { params, src_zero, weight_zero } => {
            Ok(conv::lower_integer(command, params, *src_zero, *weight_zero, limits))
        }
        Op::MatMul { epilogue } => Ok(matmul::lower(command, epilogue, limits)),
        Op::MatMulInteger { a_zero, b_zero } => {
            Ok(matmul::lower_integer(command, *a_zero, *b_zero, limits))
        }
        Op::Pool { params } => Ok(pool::lower(command, params, limits)),
        Op::Recurrent { params } => Ok(recurrent::lower(command, params, limits)),
        Op::Stft { frame, hop, .. } => {
            Ok(fourier::lower_stft(command, *frame as usize, *hop as usize, limits))
        }
        Op::CumSum { axis, exclusive, reverse } => {
            Ok(cumsum::lower(command, usize::from(*axis), *exclusive, *reverse, limits))
        }
        Op::Fill { value } => Ok(fill::lower(command, *value, limits)),
        Op::GroupNorm { groups, epsilon, weight, bias } => {
            let norm = Norm { rms: false, epsilon: *epsilon, weight: *weight, bias: *bias };
            Ok(norm.over_groups(command, *groups as usize, limits))
        }
        Op::LayerNorm { axes, epsilon, weight, bias } => {
            let norm = Norm { rms: false, epsilon: *epsilon, weight: *weight, bias: *bias };
            Ok(norm.over_last(command, usize::from(*axes), limits))
        }
        Op::Reduce { op, axes } => Ok(reduce::lower(command, *op, *axes, limits)),
        Op::RmsNorm { axes, epsilon, weight } => {
            let norm = Norm { rms: true, epsilon: *epsilon, weight: *weight, bias: false };
            Ok(norm.over_last(command, usize::from(*axes), limits))
        }
        Op::Softmax { axis, log } => Ok(softmax::lower(command, usize::from(*axis), *log, limits)),
        Op::Unary { op } => Ok(unary::lower(command, *op, limits)),
        Op::Where => Ok(select::lower(command, limits)),
        _ => Err(unsupported(op, "no kernel does it")),
    }
}

fn unsupported(op: &Op, reason: &str) -> Error {
    Error::Unsupported { op: op.name(), device: "this device".into(), reason: reason.into() }
}
