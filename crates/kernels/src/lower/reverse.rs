//! Reversed order of elements.

use millstream_core::{Axes as AxisSet, BoundCommand, DType, MAX_RANK, ReverseOperands};
use smallvec::{SmallVec, smallvec};

use super::index::widest_unit;
use crate::params::params;
use crate::program::Definition;
use crate::walk::{Walk, is_wide};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `reverse`.
    ReverseParams {
        /// Output, input and lengths.
        walk: Walk<3>,
        /// Size of the axis that has lengths, and its stride in the input.
        size: u64,
        step: u64,
        /// The index of that axis in the walk.
        axis: u32,
        /// Bit `i` is set if axis `i` of the walk is reversed completely.
        reversed: u32,
        wide_lengths: u32,
        index: u32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "reverse",
    text: include_str!("../../programs/reverse.kernel"),
    constants: &["SIZE", "LENGTHS", "RANK", "WIDE"],
    params: ReverseParams::declaration,
};

/// One axis of output, input and lengths.
#[derive(Clone, Copy)]
struct Axis {
    size: usize,
    strides: [usize; 3],
    reversed: bool,
    /// Whether lengths say how much of it is reversed.
    by_length: bool,
}

pub(super) fn lower(
    command: &BoundCommand,
    reversed: AxisSet,
    batch_axis: Option<u8>,
    index: u32,
    limits: &Limits,
) -> Lowered {
    let ReverseOperands { dst, src, lengths } = ReverseOperands::of(command);
    if dst.layout.is_empty() {
        return Lowered::default();
    }
    let by = lengths.map(|lengths| lengths.layout);
    let all = (0..dst.layout.rank()).map(|axis| {
        let length_step = match (batch_axis, &by) {
            (Some(batch), Some(by)) if usize::from(batch) == axis => by.strides()[0],
            _ => 0,
        };
        let is_reversed = reversed.contains(axis);
        Axis {
            size: dst.layout.shape()[axis],
            strides: [dst.layout.strides()[axis], src.layout.strides()[axis], length_step],
            reversed: is_reversed && lengths.is_none(),
            by_length: is_reversed && lengths.is_some(),
        }
    });
    let mut axes = merged(all.collect());
    let size = dst.layout.dtype().size();
    let mut unit = size;
    let inner = axes[0];
    if inner.strides == [1, 1, 0] && !inner.reversed && !inner.by_length {
        let outer = axes[1..].iter().flat_map(|axis| [axis.strides[0], axis.strides[1]]);
        unit = widest_unit([dst, src], outer.chain([inner.size]));
    }
    let ratio = unit / size;
    axes[0].size /= ratio;
    for axis in &mut axes[1..] {
        axis.strides[..2].iter_mut().for_each(|stride| *stride /= ratio);
    }
    let count: usize = axes.iter().map(|axis| axis.size).product();
    let offset = [dst.layout.offset() / ratio, src.layout.offset() / ratio];
    let mut launch_params = ReverseParams {
        walk: Walk {
            count: count as u64,
            shape: [1; MAX_RANK],
            offset: [offset[0], offset[1], by.map_or(0, |by| by.offset())].map(|at| at as u64),
            stride: [[0; MAX_RANK]; 3],
        },
        size: 0,
        step: 0,
        axis: 0,
        reversed: 0,
        wide_lengths: by.is_some_and(|by| by.dtype() == DType::I64).into(),
        index,
    };
    for (at, axis) in axes.iter().enumerate() {
        launch_params.walk.shape[at] = axis.size as u64;
        for (strides, stride) in launch_params.walk.stride.iter_mut().zip(axis.strides) {
            strides[at] = stride as u64;
        }
        launch_params.reversed |= u32::from(axis.reversed) << at;
        if axis.by_length {
            (launch_params.axis, launch_params.size, launch_params.step) =
                (at as u32, axis.size as u64, axis.strides[1] as u64);
        }
    }
    let rank = axes.len().next_power_of_two() as i32;
    let threads = limits.usual_threads();
    let wide = is_wide([dst, src].into_iter().chain(lengths));
    let constants = [unit as i32, lengths.is_some().into(), rank, wide.into()];
    let launch = Launch {
        key: Key::new(Program::Reverse, &constants),
        groups: [limits.groups_for(count, threads), 1, 1],
        threads,
        slots: smallvec![
            Slot::from(dst),
            Slot::from(src),
            // The input stands in for absent lengths. The kernel does not read it as such.
            Slot::from(lengths.unwrap_or(src)),
            Slot::Faults
        ],
        params: launch_params.pack(),
    };
    Lowered { launches: smallvec![launch], workspace: 0 }
}

/// The axes, innermost first. Neighboring axes are merged if both are reversed or neither is.
fn merged(mut all: SmallVec<[Axis; MAX_RANK]>) -> SmallVec<[Axis; MAX_RANK]> {
    // Lengths are checked even if they can change nothing.
    all.retain(|axis| axis.size != 1 || axis.by_length);
    all.sort_by_key(|axis| axis.strides[0]);
    let mut merged = SmallVec::<[Axis; MAX_RANK]>::new();
    for axis in all {
        match merged.last_mut() {
            Some(inner)
                if inner.reversed == axis.reversed
                    && !inner.by_length
                    && !axis.by_length
                    && (0..3).all(|k| axis.strides[k] == inner.strides[k] * inner.size) =>
            {
                inner.size *= axis.size;
            }
            _ => merged.push(axis),
        }
    }
    if merged.is_empty() {
        let strides = [1, 1, 0];
        merged.push(Axis { size: 1, strides, reversed: false, by_length: false });
    }
    merged
}
