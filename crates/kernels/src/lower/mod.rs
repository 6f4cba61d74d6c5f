//! From Commands to launches, one file per family of operations.

pub(crate) mod copy;
pub(crate) mod fill;

use millstream_core::{BoundCommand, DType, Error, Op, OpKind};

use crate::{Limits, Lowered};

pub use copy::lower_copy;

/// The kinds that [`lower`] knows. One line per family.
const SUPPORTED: &[&[OpKind]] = &[&[OpKind::Copy], &[OpKind::Fill]];

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
        Op::Fill { value } => Ok(fill::lower(command, *value, limits)),
        _ => Err(unsupported(op, "no kernel does it")),
    }
}

fn unsupported(op: &Op, reason: &str) -> Error {
    Error::Unsupported { op: op.name(), device: "this device".into(), reason: reason.into() }
}
