//! Rescaling of exact integer sums.

use millstream_core::{DType, Layout, Operand, RawBuffer, Rescale};

use super::epilogue::activation_code;
use crate::params::params;
use crate::program::Definition;
use crate::walk::{Elementwise, Walk};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `rescale`.
    RescaleParams {
        /// Output, sums, both scales, bias and residual.
        walk: Walk<6>,
        /// The positions of the output's scale and zero point.
        dst_scale: u64,
        dst_zero: u64,
        tail: u32,
        first: f32,
        second: f32,
        act: u32,
        has_bias: u32,
        has_residual: u32,
        has_zero: u32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "rescale",
    text: include_str!("../../programs/rescale.kernel"),
    constants: &["DST", "BIAS", "RANK", "WIDE", "VECTOR", "STEPS"],
    params: RescaleParams::declaration,
};

/// The operands of the rescaling, broadcast to the output unless they are one number.
pub(super) struct Extras<'a> {
    pub rescale: &'a Rescale,
    pub scales: [Operand<RawBuffer>; 2],
    pub bias: Option<&'a Operand<RawBuffer>>,
    pub residual: Option<&'a Operand<RawBuffer>>,
    pub dst_scale: Option<&'a Operand<RawBuffer>>,
    pub dst_zero: Option<&'a Operand<RawBuffer>>,
}

/// An operand for sums of the shape of an output, in scratch memory that this reserves.
pub(super) fn sums(dst: &Operand<RawBuffer>, lowered: &mut Lowered) -> (Operand<RawBuffer>, Slot) {
    let layout = Layout::contiguous(DType::I32, dst.layout.shape());
    let layout = layout.expect("there is an output of this shape");
    let slot = lowered.reserve(layout.dense_bytes());
    (Operand::new(RawBuffer { address: 0, bytes: layout.dense_bytes() }, layout), slot)
}

/// An operand broadcast to a shape.
pub(super) fn repeated(operand: &Operand<RawBuffer>, shape: &[usize]) -> Operand<RawBuffer> {
    let layout = operand.layout.broadcast_to(shape).expect("it was broadcast when it was recorded");
    Operand::new(operand.buffer, layout)
}

/// Adds the launch that rescales sums to the output. There is at least one sum.
pub(super) fn finish(
    dst: &Operand<RawBuffer>,
    (sums, place): (&Operand<RawBuffer>, Slot),
    extras: &Extras<'_>,
    lowered: &mut Lowered,
    limits: &Limits,
) {
    let Extras { rescale, scales, bias, residual, dst_scale, dst_zero } = extras;
    let operands =
        [dst, sums, &scales[0], &scales[1], bias.unwrap_or(sums), residual.unwrap_or(sums)];
    let Some(grid) = Elementwise::new(operands, limits) else { return };
    let (act, first, second) = activation_code(rescale.activation);
    let bias_type = bias.map_or(DType::I32, |bias| bias.layout.dtype());
    let constants = [
        dst.layout.dtype() as i32,
        bias_type as i32,
        grid.rank,
        grid.wide,
        grid.vector,
        grid.steps,
    ];
    let slot = |operand: Option<&Operand<RawBuffer>>| operand.map_or(place, Slot::from);
    let offset =
        |operand: Option<&Operand<RawBuffer>>| operand.map_or(0, |at| at.layout.offset() as u64);
    let params = RescaleParams {
        walk: grid.walk,
        dst_scale: offset(*dst_scale),
        dst_zero: offset(*dst_zero),
        tail: grid.tail,
        first,
        second,
        act: act as u32,
        has_bias: bias.is_some().into(),
        has_residual: residual.is_some().into(),
        has_zero: dst_zero.is_some().into(),
    };
    lowered.launches.push(Launch {
        key: Key::new(Program::Rescale, &constants),
        groups: grid.groups,
        threads: grid.threads,
        slots: [
            Slot::from(dst),
            place,
            Slot::from(&scales[0]),
            Slot::from(&scales[1]),
            slot(*bias),
            slot(*residual),
            slot(*dst_scale),
            slot(*dst_zero),
        ]
        .into_iter()
        .collect(),
        params: params.pack(),
    });
}
