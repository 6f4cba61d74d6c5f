//! From Commands to launches, one file per family of operations.

pub(crate) mod copy;
pub(crate) mod fill;
pub(crate) mod gather;
pub(crate) mod index;
pub(crate) mod pad;
pub(crate) mod quantize;
pub(crate) mod random;
pub(crate) mod scatter;
pub(crate) mod top_k;

use millstream_core::{BoundCommand, DType, Error, Op, OpKind};

use crate::{Limits, Lowered};

pub use copy::lower_copy;

/// The kinds that [`lower`] knows. One line per family.
const SUPPORTED: &[&[OpKind]] = &[
    &[OpKind::Copy],
    &[OpKind::Fill],
    &[OpKind::Gather, OpKind::Embedding, OpKind::GatherElements, OpKind::GatherNd],
    &[OpKind::Pad],
    &[OpKind::Quantize, OpKind::Dequantize],
    &[OpKind::Random],
    &[OpKind::ScatterElements, OpKind::ScatterNd],
    &[OpKind::TopK],
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
    let wide = |dtype: DType| dtype == DType::F64;
    let op = command.op();
    // Copies of f64 as it is move bytes; everything else computes.
    let moves = matches!(op, Op::Fill { .. } | Op::Copy) || moves_by_index(op);
    if !limits.f64 && !moves && command.accesses().any(|(_, operand)| wide(operand.layout.dtype()))
    {
        return Err(unsupported(op, "there is no 64-bit floating point"));
    }
    match op {
        Op::Copy => copy::lower(command, limits),
        Op::Fill { value } => Ok(fill::lower(command, *value, limits)),
        Op::Gather { .. } | Op::Embedding | Op::GatherElements { .. } | Op::GatherNd { .. } => {
            Ok(gather::lower(command, index, limits))
        }
        Op::Pad { params } => Ok(pad::lower(command, params, limits)),
        Op::Quantize { .. } => Ok(quantize::lower(command, false, limits)),
        Op::Dequantize { .. } => Ok(quantize::lower(command, true, limits)),
        Op::Random { distribution, seed, offset } => {
            Ok(random::lower(command, *distribution, (*seed, *offset), limits))
        }
        Op::ScatterElements { .. } | Op::ScatterNd { .. } => scatter::lower(command, index, limits),
        Op::TopK { axis, largest, sorted } => {
            top_k::lower(command, usize::from(*axis), (*largest, *sorted), limits)
        }
        _ => Err(unsupported(op, "no kernel does it")),
    }
}

/// Whether an operation only moves elements to or from where indices or widths say.
fn moves_by_index(op: &Op) -> bool {
    use millstream_core::ScatterReduction::Replace;
    match op {
        Op::Gather { .. } | Op::Embedding | Op::GatherElements { .. } => true,
        Op::GatherNd { .. } | Op::Pad { .. } => true,
        Op::ScatterElements { reduction, .. } | Op::ScatterNd { reduction } => {
            *reduction == Replace
        }
        _ => false,
    }
}

fn unsupported(op: &Op, reason: &str) -> Error {
    Error::Unsupported { op: op.name(), device: "this device".into(), reason: reason.into() }
}
