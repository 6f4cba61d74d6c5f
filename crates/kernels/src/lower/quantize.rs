//! Conversion to and from integers with a scale.

use millstream_core::{BoundCommand, QuantizeOperands};
use smallvec::smallvec;

use crate::params::params;
use crate::program::Definition;
use crate::walk::{Plan, Walk};
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
    text: include_str!("../../programs/quantize.metal"),
    constants: &["BACK", "FLOAT", "INTEGER", "RANK", "WIDE", "VECTOR", "STEPS"],
    params: QuantizeParams::declaration,
};

/// `back` is from integers.
pub(super) fn lower(command: &BoundCommand, back: bool, limits: &Limits) -> Lowered {
    let QuantizeOperands { dst, src, scale, zero: given } = QuantizeOperands::of(command);
    // Without a zero point the scale stands in, so that the walk has the same form.
    let zero = given.unwrap_or(scale);
    let Some(plan) = Plan::new([dst, src, scale, zero], limits) else { return Lowered::default() };
    let (float, integer) = if back { (dst, src) } else { (src, dst) };
    let constants = [
        back.into(),
        float.layout.dtype() as i32,
        integer.layout.dtype() as i32,
        plan.rank,
        plan.wide,
        plan.vector,
        plan.steps,
    ];
    let launch = Launch {
        key: Key::new(Program::Quantize, &constants),
        groups: plan.groups,
        threads: plan.threads,
        slots: [dst, src, scale, zero].map(Slot::from).into_iter().collect(),
        params: QuantizeParams { walk: plan.walk, tail: plan.tail, zero: given.is_some().into() }
            .pack(),
    };
    Lowered { launches: smallvec![launch], workspace: 0 }
}
