//! Quantization to 4 bits and back.

use millstream_core::{MAX_RANK, PackedAxis, QuantizeOperands, RawBuffer};

use crate::params::params;
use crate::program::Definition;
use crate::walk::is_wide;
use crate::{Key, Launch, Limits, Program, Slot};

params! {
    /// The params of `quantize_packed`.
    QuantizePackedParams {
        count: u64,
        /// Offsets of the 4-bit numbers, of the other numbers, of scales and of zero points.
        offset: [u64; 4],
        size: [u64; MAX_RANK],
        /// Neighbors that share a scale.
        block: [u64; MAX_RANK],
        /// Strides of the other numbers, of scales and of zero points.
        stride: [[u64; MAX_RANK]; 3],
        rank: u32,
        /// Whether there are zero points.
        zero: u32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "quantize_packed",
    text: include_str!("../../programs/quantize_packed.kernel"),
    constants: &["BACK", "FLOAT", "STORED", "SCALE", "WIDE"],
    params: QuantizePackedParams::declaration,
};

/// `back` means dequantization.
pub(super) fn launch(
    axes: &[PackedAxis],
    operands: &QuantizeOperands<'_, RawBuffer>,
    back: bool,
    limits: &Limits,
) -> Launch {
    let QuantizeOperands { dst, src, scale, zero: given } = *operands;
    let (stored, other) = if back { (src, dst) } else { (dst, src) };
    // The scale stands in for absent zero points. The kernel does not read it as such.
    let zero = given.unwrap_or(scale);
    let count = stored.layout.elements();
    let constants = [
        back.into(),
        other.layout.dtype() as i32,
        stored.layout.dtype() as i32,
        scale.layout.dtype() as i32,
        is_wide([dst, src, scale, zero]).into(),
    ];
    let each = |value: fn(&PackedAxis) -> usize| {
        std::array::from_fn(|axis| axes.get(axis).map_or(1, |axis| value(axis) as u64))
    };
    let params = QuantizePackedParams {
        count: count as u64,
        offset: [stored, other, scale, zero].map(|operand| operand.layout.offset() as u64),
        size: each(|axis| axis.size),
        block: each(|axis| axis.block),
        stride: [
            each(|axis| axis.strides[0]),
            each(|axis| axis.strides[1]),
            each(|axis| axis.strides[2]),
        ],
        rank: axes.len() as u32,
        zero: given.is_some().into(),
    };
    let threads = limits.usual_threads();
    Launch {
        key: Key::new(Program::QuantizePacked, &constants),
        groups: [limits.groups_for(count.div_ceil(2), threads), 1, 1],
        threads,
        slots: [dst, src, scale, zero].map(Slot::from).into_iter().collect(),
        params: params.pack(),
    }
}
