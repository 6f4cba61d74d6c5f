//! From Commands to launches, one file per family of operations.

mod activation;
pub(crate) mod attention;
pub(crate) mod conv;
pub(crate) mod copy;
pub(crate) mod fill;
pub(crate) mod fourier;
pub(crate) mod gemv;
pub(crate) mod matmul;
pub(crate) mod pool;
mod product;
pub(crate) mod recurrent;

use millstream_core::{BoundCommand, DType, Error, Op, OpKind};

use crate::{Limits, Lowered};

pub use copy::lower_copy;
pub use gemv::lower_gemv;

/// The kinds that [`lower`] knows. One line per family.
const SUPPORTED: &[&[OpKind]] = &[
    &[OpKind::Attention],
    &[OpKind::Copy],
    &[OpKind::Dft, OpKind::Stft],
    &[OpKind::Fill],
    &[OpKind::MatMul, OpKind::MatMulInteger],
    &[OpKind::Conv, OpKind::ConvTranspose, OpKind::ConvInteger],
    &[OpKind::Pool],
    &[OpKind::Recurrent],
];

/// Whether [`lower`] knows this kind of operation.
pub fn supports(kind: OpKind) -> bool {
    SUPPORTED.iter().any(|kinds| kinds.contains(&kind))
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
        Op::Copy => copy::lower(command, limits),
        Op::Dft { axis, inverse, onesided } => {
            Ok(fourier::lower_dft(command, usize::from(*axis), *inverse, *onesided, limits))
        }
        Op::Fill { value } => Ok(fill::lower(command, *value, limits)),
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
        _ => Err(unsupported(op, "no kernel does it")),
    }
}

fn unsupported(op: &Op, reason: &str) -> Error {
    Error::Unsupported { op: op.name(), device: "this device".into(), reason: reason.into() }
}
