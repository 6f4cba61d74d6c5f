//! Padding and cropping.

use millstream_core::{BoundCommand, MAX_RANK, Operand, PadMode, PadParams, RawBuffer};
use smallvec::{SmallVec, smallvec};

use super::index::{repeated, widest_unit};
use crate::params::params;
use crate::program::Definition;
use crate::walk::{Walk, is_wide};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `pad`.
    PadKernelParams {
        /// Output and input.
        walk: Walk<2>,
        /// Elements before the first, per axis.
        lead: [i64; MAX_RANK],
        /// Elements of the input that are kept, per axis.
        kept: [i64; MAX_RANK],
        /// The bytes of the value, repeated to 8.
        value: u64,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "pad",
    text: include_str!("../../programs/pad.kernel"),
    constants: &["MODE", "SIZE", "RANK", "WIDE"],
    params: PadKernelParams::declaration,
};

/// One axis of output and input.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis {
    /// The size in the output.
    size: usize,
    strides: [usize; 2],
    lead: usize,
    kept: usize,
}

impl Axis {
    fn is_plain(&self) -> bool {
        self.lead == 0 && self.kept == self.size
    }
}

pub(super) fn lower(command: &BoundCommand, params: &PadParams, limits: &Limits) -> Lowered {
    let (dst, src) = (&command.outputs()[0], &command.inputs()[0]);
    if dst.layout.is_empty() {
        return Lowered::default();
    }
    let (mut axes, mut offset) = axes(params, dst, src);
    let (mode, value) = match params.mode {
        PadMode::Constant(value) => (0, value.to_bytes(dst.layout.dtype())),
        PadMode::Edge => (1, [0; 8]),
        PadMode::Reflect => (2, [0; 8]),
        PadMode::Wrap => (3, [0; 8]),
    };
    let size = dst.layout.dtype().size();
    let inner = axes[0];
    let mut unit = size;
    if inner.strides == [1, 1] && (mode == 0 || inner.is_plain()) {
        let outer = axes[1..].iter().flat_map(|axis| axis.strides);
        let lengths = [inner.size, inner.lead, inner.kept, offset];
        unit = widest_unit([dst, src], outer.chain(lengths));
    }
    let ratio = unit / size;
    for (at, axis) in axes.iter_mut().enumerate() {
        if at == 0 {
            axis.size /= ratio;
            axis.lead /= ratio;
            axis.kept /= ratio;
        } else {
            axis.strides.iter_mut().for_each(|stride| *stride /= ratio);
        }
    }
    offset /= ratio;
    let count: usize = axes.iter().map(|axis| axis.size).product();
    let mut launch_params = PadKernelParams {
        walk: Walk {
            count: count as u64,
            shape: [1; MAX_RANK],
            offset: [(dst.layout.offset() / ratio) as u64, offset as u64],
            stride: [[0; MAX_RANK]; 2],
        },
        lead: [0; MAX_RANK],
        kept: [1; MAX_RANK],
        value: repeated(&value[..size]),
    };
    for (at, axis) in axes.iter().enumerate() {
        launch_params.walk.shape[at] = axis.size as u64;
        launch_params.walk.stride[0][at] = axis.strides[0] as u64;
        launch_params.walk.stride[1][at] = axis.strides[1] as u64;
        launch_params.lead[at] = axis.lead as i64;
        launch_params.kept[at] = axis.kept as i64;
    }
    let rank = axes.len().next_power_of_two() as i32;
    let threads = limits.usual_threads();
    let launch = Launch {
        key: Key::new(Program::Pad, &[mode, unit as i32, rank, is_wide([dst, src]).into()]),
        groups: [limits.groups_for(count, threads), 1, 1],
        threads,
        slots: smallvec![Slot::from(dst), Slot::from(src)],
        params: launch_params.pack(),
    };
    Lowered { launches: smallvec![launch], workspace: 0 }
}

/// The axes, innermost first and merged if neither is padded, and the offset of the first input element that is kept.
fn axes(
    params: &PadParams,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
) -> (SmallVec<[Axis; MAX_RANK]>, usize) {
    let (to, from) = (&dst.layout, &src.layout);
    let mut offset = from.offset();
    let mut all = SmallVec::<[Axis; MAX_RANK]>::new();
    for axis in 0..to.rank() {
        let (before, after) = (params.before[axis], params.after[axis]);
        let first = (-before).max(0) as usize;
        let strides = [to.strides()[axis], from.strides()[axis]];
        offset += first * strides[1];
        let kept = from.shape()[axis] - first - (-after).max(0) as usize;
        all.push(Axis { size: to.shape()[axis], strides, lead: before.max(0) as usize, kept });
    }
    all.retain(|axis| axis.size != 1 || !axis.is_plain());
    all.sort_by_key(|axis| axis.strides[0]);
    let mut merged = SmallVec::<[Axis; MAX_RANK]>::new();
    for axis in all {
        match merged.last_mut() {
            Some(inner)
                if inner.is_plain()
                    && axis.is_plain()
                    && (0..2).all(|k| axis.strides[k] == inner.strides[k] * inner.size) =>
            {
                inner.size *= axis.size;
                inner.kept = inner.size;
            }
            _ => merged.push(axis),
        }
    }
    if merged.is_empty() {
        merged.push(Axis { size: 1, strides: [1, 1], lead: 0, kept: 1 });
    }
    (merged, offset)
}
