//! Strided copies and conversions.

use millstream_core::{BoundCommand, DType, Operand, RawBuffer};
use smallvec::smallvec;

use crate::params::params;
use crate::program::Definition;
use crate::walk::{Elementwise, Walk};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `copy`.
    CopyParams {
        walk: Walk<2>,
        tail: u32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "copy",
    text: include_str!("../../programs/copy.kernel"),
    constants: &["TO", "FROM", "RANK", "WIDE", "VECTOR", "STEPS"],
    params: CopyParams::declaration,
};

/// An element type of this size, for copies that convert nothing.
pub(super) fn raw(size: usize) -> i32 {
    match size {
        1 => DType::U8 as i32,
        2 => DType::U16 as i32,
        4 => DType::I32 as i32,
        _ => DType::I64 as i32,
    }
}

pub(super) fn lower(command: &BoundCommand, saturate: bool, limits: &Limits) -> Lowered {
    let (dst, src) = (&command.outputs()[0], &command.inputs()[0]);
    let converts = dst.layout.dtype() != src.layout.dtype();
    if converts && [dst, src].iter().any(|operand| operand.layout.dtype().is_storage()) {
        return super::storage::lower(dst, src, saturate, limits);
    }
    lower_copy(dst, src, limits)
}

/// `dst[i] = src[i]` between any two layouts of the same shape, with conversion. Backends use it for uploads and
/// downloads that are not dense.
pub fn lower_copy(dst: &Operand<RawBuffer>, src: &Operand<RawBuffer>, limits: &Limits) -> Lowered {
    // Storage-only elements are copied as bytes.
    let bytes =
        |operand: &Operand<RawBuffer>| Operand::new(operand.buffer, operand.layout.storage_bytes());
    let (dst, src) = (&bytes(dst), &bytes(src));
    let Some(grid) = Elementwise::new([dst, src], limits) else { return Lowered::default() };
    let (to, from) = (dst.layout.dtype(), src.layout.dtype());
    let (to, from) =
        if to == from { (raw(to.size()), raw(to.size())) } else { (to as i32, from as i32) };
    let constants = [to, from, grid.rank, grid.wide, grid.vector, grid.steps];
    let launch = Launch {
        key: Key::new(Program::Copy, &constants),
        groups: grid.groups,
        threads: grid.threads,
        slots: smallvec![Slot::from(dst), Slot::from(src)],
        params: CopyParams { walk: grid.walk, tail: grid.tail }.pack(),
    };
    Lowered { launches: smallvec![launch], workspace: 0 }
}
