//! Rotary embedding.

use millstream_core::{BoundCommand, DType, Operand, RawBuffer, RopeOperands};
use smallvec::smallvec;

use crate::params::params;
use crate::program::Definition;
use crate::walk::is_wide;
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `rope`.
    RopeParams {
        /// Offsets of output, input, cosines, sines and positions.
        offset: [u64; 5],
        /// Strides. Output and input: batch, head, position, element. Cosines and sines: batch, position, row of the
        /// table, pair. Positions: batch, position.
        stride: [[u64; 4]; 5],
        rows: u64,
        heads: u64,
        length: u64,
        pairs: u64,
        /// Pairs of a row, plus the elements after them.
        units: u64,
        /// Rows of the tables.
        most: u64,
        wide: u32,
        has_positions: u32,
        interleaved: u32,
        index: u32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "rope",
    text: include_str!("../../programs/rope.kernel"),
    constants: &["DTYPE", "WIDE"],
    params: RopeParams::declaration,
};

/// The strides of an operand; 0 for axes that it does not have.
fn strides(operand: &Operand<RawBuffer>) -> [u64; 4] {
    let strides = operand.layout.strides();
    std::array::from_fn(|axis| strides.get(axis).map_or(0, |&stride| stride as u64))
}

/// The strides of a table, whose rows are selected by positions, or by batch and position.
fn table(operand: &Operand<RawBuffer>) -> [u64; 4] {
    match strides(operand) {
        [row, pair, ..] if operand.layout.rank() == 2 => [0, 0, row, pair],
        [batch, place, pair, _] => [batch, place, 0, pair],
    }
}

pub(super) fn lower(
    command: &BoundCommand,
    interleaved: bool,
    index: u32,
    limits: &Limits,
) -> Lowered {
    let RopeOperands { dst, src, cos, sin, positions } = RopeOperands::of(command);
    if dst.layout.is_empty() {
        return Lowered::default();
    }
    let axes: [usize; 4] = std::array::from_fn(|axis| dst.layout.shape()[axis]);
    let [batch, heads, length, size] = axes;
    let (rows, pairs) = (batch * heads * length, cos.layout.shape()[cos.layout.rank() - 1]);
    let units = size - pairs;
    let operands = [Some(dst), Some(src), Some(cos), Some(sin), positions];
    let wide = is_wide(operands.into_iter().flatten());
    let offset = |operand: Option<&Operand<RawBuffer>>| {
        operand.map_or(0, |operand| operand.layout.offset() as u64)
    };
    let places = positions.map_or([0; 4], strides);
    let threads = limits.usual_threads();
    let launch = Launch {
        key: Key::new(Program::Rope, &[dst.layout.dtype() as i32, wide.into()]),
        groups: [limits.groups_for(rows * units, threads), 1, 1],
        threads,
        // Another operand stands in for absent positions. The kernel does not read it as such.
        slots: smallvec![
            Slot::from(dst),
            Slot::from(src),
            Slot::from(cos),
            Slot::from(sin),
            Slot::from(positions.unwrap_or(src)),
            Slot::Faults
        ],
        params: RopeParams {
            offset: operands.map(offset),
            stride: [strides(dst), strides(src), table(cos), table(sin), places],
            rows: rows as u64,
            heads: heads as u64,
            length: length as u64,
            pairs: pairs as u64,
            units: units as u64,
            most: cos.layout.shape()[0] as u64,
            wide: positions.is_some_and(|at| at.layout.dtype() == DType::I64).into(),
            has_positions: positions.is_some().into(),
            interleaved: interleaved.into(),
            index,
        }
        .pack(),
    };
    Lowered { launches: smallvec![launch], workspace: 0 }
}
