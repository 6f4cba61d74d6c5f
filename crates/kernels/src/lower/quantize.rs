//! Quantization and dequantization.

use millstream_core::{BoundCommand, QuantizeOperands, QuantizePart, RawBuffer};
use smallvec::smallvec;

use super::quantize_packed;
use crate::params::params;
use crate::program::Definition;
use crate::walk::{Elementwise, Walk};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `quantize`.
    QuantizeParams {
        walk: Walk<4>,
        tail: u32,
        /// Whether there is a zero point.
        zero: u32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "quantize",
    text: include_str!("../../programs/quantize.kernel"),
    constants: &["BACK", "FLOAT", "INTEGER", "SCALE", "RANK", "WIDE", "VECTOR", "STEPS"],
    params: QuantizeParams::declaration,
};

/// `back` means dequantization.
pub(super) fn lower(command: &BoundCommand, back: bool, limits: &Limits) -> Lowered {
    let operands = QuantizeOperands::of(command);
    if let Some(axes) = operands.packed_axes(command.op()) {
        let launch = quantize_packed::launch(&axes, &operands, back, limits);
        return Lowered { launches: smallvec![launch], workspace: 0 };
    }
    let parts = operands.parts(command.op());
    let launches = parts.iter().filter_map(|part| launch(part, back, limits)).collect();
    Lowered { launches, workspace: 0 }
}

fn launch(part: &QuantizePart<RawBuffer>, back: bool, limits: &Limits) -> Option<Launch> {
    let QuantizePart { dst, src, scale, zero: given } = part;
    // The scale stands in for an absent zero point, so that the walk has the same form.
    let zero = given.as_ref().unwrap_or(scale);
    let grid = Elementwise::new([dst, src, scale, zero], limits)?;
    let (float, integer) = if back { (dst, src) } else { (src, dst) };
    let constants = [
        back.into(),
        float.layout.dtype() as i32,
        integer.layout.dtype() as i32,
        scale.layout.dtype() as i32,
        grid.rank,
        grid.wide,
        grid.vector,
        grid.steps,
    ];
    Some(Launch {
        key: Key::new(Program::Quantize, &constants),
        groups: grid.groups,
        threads: grid.threads,
        slots: [dst, src, scale, zero].map(Slot::from).into_iter().collect(),
        params: QuantizeParams { walk: grid.walk, tail: grid.tail, zero: given.is_some().into() }
            .pack(),
    })
}
