//! Conversion to and from integers with a scale.

use millstream_core::{BoundCommand, QuantizeOperands, QuantizePart, RawBuffer};

use crate::params::params;
use crate::program::Definition;
use crate::walk::{Elementwise, Walk};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// What `quantize` is told.
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

/// `back` is from integers.
pub(super) fn lower(command: &BoundCommand, back: bool, limits: &Limits) -> Lowered {
    let parts = QuantizeOperands::of(command).parts(command.op());
    let launches = parts.iter().filter_map(|part| launch(part, back, limits)).collect();
    Lowered { launches, workspace: 0 }
}

fn launch(part: &QuantizePart<RawBuffer>, back: bool, limits: &Limits) -> Option<Launch> {
    let QuantizePart { dst, src, scale, zero: given } = part;
    // Without a zero point the scale stands in, so that the walk has the same form.
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
