//! Pooling.

use millstream_core::{
    BoundCommand, MAX_SPATIAL, Operand, PoolKind, PoolOperands, PoolOrder, PoolParams, RawBuffer,
};
use smallvec::smallvec;

use super::conv::{AXES, spatial, strides};
use crate::params::params;
use crate::program::Definition;
use crate::walk::is_wide;
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `pool`.
    PoolLaunch {
        count: u64,
        channels: u64,
        /// Offsets of output, indices and input.
        offset: [u64; 3],
        stride: [[u64; AXES]; 3],
        out_size: [u64; MAX_SPATIAL],
        in_size: [u64; MAX_SPATIAL],
        taps: [u64; MAX_SPATIAL],
        step: [u64; MAX_SPATIAL],
        dilation: [u64; MAX_SPATIAL],
        before: [u64; MAX_SPATIAL],
        after: [u64; MAX_SPATIAL],
        with_padding: u32,
        has_indices: u32,
        /// How indices are counted: in the channel, in the whole input, or by columns.
        order: u32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "pool",
    text: include_str!("../../programs/pool.kernel"),
    constants: &["DTYPE", "KIND", "SPATIAL", "LANES", "WIDE"],
    params: PoolLaunch::declaration,
};

/// For this many taps and more, a simd group shares a window.
const MANY_TAPS: u64 = 32;

pub(super) fn lower(command: &BoundCommand, params: &PoolParams, limits: &Limits) -> Lowered {
    let PoolOperands { dst, indices, src } = PoolOperands::of(command);
    if dst.layout.is_empty() {
        return Lowered::default();
    }
    let (kind, with_padding) = match params.kind {
        PoolKind::Max => (0, false),
        PoolKind::Average { include_padding } => (1, include_padding),
    };
    let operands = [Some(dst), indices, Some(src)];
    let offset = |operand: &Operand<RawBuffer>| operand.layout.offset() as u64;
    let launch = PoolLaunch {
        count: dst.layout.elements() as u64,
        channels: dst.layout.shape()[1] as u64,
        offset: operands.map(|operand| operand.map_or(0, offset)),
        stride: operands.map(|operand| operand.map_or([0; AXES], strides)),
        out_size: spatial(dst.layout.shape()),
        in_size: spatial(src.layout.shape()),
        taps: params.kernel.map(u64::from),
        step: params.stride.map(u64::from),
        dilation: params.dilation.map(u64::from),
        before: params.pad_before.map(u64::from),
        after: params.pad_after.map(u64::from),
        with_padding: with_padding.into(),
        has_indices: indices.is_some().into(),
        order: match params.order {
            PoolOrder::Channel => 0,
            PoolOrder::Whole => 1,
            PoolOrder::WholeByColumns => 2,
        },
    };
    let wide = is_wide(operands.into_iter().flatten()) || is_far(params, dst.layout.shape());
    let taps = launch.taps.iter().fold(1u64, |taps, &size| taps.saturating_mul(size));
    let lanes = if taps >= MANY_TAPS { 32 } else { 1 };
    let constants =
        [dst.layout.dtype() as i32, kind, i32::from(params.spatial), lanes, wide.into()];
    let threads = limits.usual_threads();
    let launch = Launch {
        key: Key::new(Program::Pool, &constants),
        groups: [limits.groups_for(dst.layout.elements() * lanes as usize, threads), 1, 1],
        threads,
        slots: operands.iter().map(|operand| Slot::from(operand.unwrap_or(dst))).collect(),
        params: launch.pack(),
    };
    Lowered { launches: smallvec![launch], workspace: 0 }
}

/// Whether padding or strides are so large that 32-bit positions would wrap around into the input.
fn is_far(params: &PoolParams, shape: &[usize]) -> bool {
    (0..usize::from(params.spatial)).any(|axis| {
        let number = |values: &[u32; MAX_SPATIAL]| u64::from(values[axis]);
        let steps = (shape[axis + 2] as u64).saturating_mul(number(&params.stride));
        let taps = number(&params.kernel).saturating_mul(number(&params.dilation));
        let padding = number(&params.pad_before) + number(&params.pad_after);
        steps.saturating_add(taps).saturating_add(padding) >= 1 << 31
    })
}
