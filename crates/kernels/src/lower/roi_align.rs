//! Regions of interest, each resampled to the same size.

use millstream_core::{BoundCommand, DType, MAX_SPATIAL, RoiAlignParams, RoiMode};
use smallvec::smallvec;

use super::conv::{AXES, spatial, strides};
use crate::params::params;
use crate::program::Definition;
use crate::walk::is_wide;
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `roi_align`.
    RoiAlignLaunch {
        count: u64,
        batches: u64,
        channels: u64,
        /// Offsets of output, input, regions and batches.
        offset: [u64; 4],
        stride: [[u64; AXES]; 4],
        out_size: [u64; MAX_SPATIAL],
        in_size: [u64; MAX_SPATIAL],
        scale: f32,
        /// Samples per output along each axis. With 0, as many as the region needs, at most `most`.
        samples: u32,
        most: u32,
        wide_batches: u32,
        index: u32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "roi_align",
    text: include_str!("../../programs/roi_align.kernel"),
    constants: &["DTYPE", "MAX", "HALF", "WIDE"],
    params: RoiAlignLaunch::declaration,
};

pub(super) fn lower(
    command: &BoundCommand,
    params: RoiAlignParams,
    index: u32,
    limits: &Limits,
) -> Lowered {
    let (dst, [src, rois, batches]) = (&command.outputs()[0], command.inputs()) else {
        return Lowered::default();
    };
    if dst.layout.is_empty() {
        return Lowered::default();
    }
    let operands = [dst, src, rois, batches];
    let count = dst.layout.elements();
    let launch_params = RoiAlignLaunch {
        count: count as u64,
        batches: src.layout.shape()[0] as u64,
        channels: dst.layout.shape()[1] as u64,
        offset: operands.map(|operand| operand.layout.offset() as u64),
        stride: operands.map(strides),
        out_size: spatial(dst.layout.shape()),
        in_size: spatial(src.layout.shape()),
        scale: params.scale,
        samples: params.samples,
        most: RoiAlignParams::MAX_SAMPLES,
        wide_batches: (batches.layout.dtype() == DType::I64).into(),
        index,
    };
    let constants = [
        dst.layout.dtype() as i32,
        match params.mode {
            RoiMode::Mean => 0,
            RoiMode::Max => 1,
        },
        params.half_pixel.into(),
        is_wide(operands).into(),
    ];
    let threads = limits.usual_threads();
    let [dst, src, rois, batches] = operands.map(Slot::from);
    let launch = Launch {
        key: Key::new(Program::RoiAlign, &constants),
        groups: [limits.groups_for(count, threads), 1, 1],
        threads,
        slots: smallvec![dst, src, rois, batches, Slot::Faults],
        params: launch_params.pack(),
    };
    Lowered { launches: smallvec![launch], workspace: 0 }
}
