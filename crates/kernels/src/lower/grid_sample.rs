//! Sampling at the positions of a grid.

use millstream_core::{BoundCommand, GridMode, GridPadding, MAX_SPATIAL};
use smallvec::smallvec;

use super::conv::{AXES, spatial, strides};
use crate::params::params;
use crate::program::Definition;
use crate::walk::is_wide;
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `grid_sample`.
    GridSampleParams {
        count: u64,
        channels: u64,
        /// Offsets of output, input and grid.
        offset: [u64; 3],
        stride: [[u64; AXES]; 3],
        out_size: [u64; MAX_SPATIAL],
        in_size: [u64; MAX_SPATIAL],
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "grid_sample",
    text: include_str!("../../programs/grid_sample.kernel"),
    constants: &["DTYPE", "MODE", "PADDING", "ALIGN", "SPATIAL", "WIDE"],
    params: GridSampleParams::declaration,
};

pub(super) fn lower(
    command: &BoundCommand,
    (mode, padding): (GridMode, GridPadding),
    align_corners: bool,
    limits: &Limits,
) -> Lowered {
    let (dst, [src, grid]) = (&command.outputs()[0], command.inputs()) else {
        return Lowered::default();
    };
    if dst.layout.is_empty() {
        return Lowered::default();
    }
    let operands = [dst, src, grid];
    let count = dst.layout.elements();
    let params = GridSampleParams {
        count: count as u64,
        channels: dst.layout.shape()[1] as u64,
        offset: operands.map(|operand| operand.layout.offset() as u64),
        stride: operands.map(strides),
        out_size: spatial(dst.layout.shape()),
        in_size: spatial(src.layout.shape()),
    };
    let constants = [
        dst.layout.dtype() as i32,
        match mode {
            GridMode::Nearest => 0,
            GridMode::Linear => 1,
            GridMode::Cubic => 2,
        },
        match padding {
            GridPadding::Zeros => 0,
            GridPadding::Border => 1,
            GridPadding::Reflection => 2,
        },
        align_corners.into(),
        dst.layout.rank() as i32 - 2,
        is_wide(operands).into(),
    ];
    let threads = limits.usual_threads();
    let launch = Launch {
        key: Key::new(Program::GridSample, &constants),
        groups: [limits.groups_for(count, threads), 1, 1],
        threads,
        slots: operands.map(Slot::from).into_iter().collect(),
        params: params.pack(),
    };
    Lowered { launches: smallvec![launch], workspace: 0 }
}
