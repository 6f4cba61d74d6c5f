//! Writing by index.

use millstream_core::{BoundCommand, DType, Error, Op, ScatterReduction};
use smallvec::smallvec;

use super::copy::lower_copy;
use super::index::{Slices, Tuple, in_units, widest_unit};
use crate::params::params;
use crate::program::Definition;
use crate::walk::{Axes, Walk, is_wide};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `scatter`.
    ScatterParams {
        /// Updates, output and indices.
        items: Walk<3>,
        /// The elements of one update, with strides of updates and output.
        slice: Walk<2>,
        tuple: Tuple,
        /// Items per group along y.
        part: u64,
        /// How many threads share the elements of one update; a power of two.
        columns: u32,
        index: u32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "scatter",
    text: include_str!("../../programs/scatter.kernel"),
    constants: &["REDUCTION", "TYPE", "RANK", "SLICE_RANK", "WIDE", "THREADS"],
    params: ScatterParams::declaration,
};

pub(super) fn lower(command: &BoundCommand, index: u32, limits: &Limits) -> Result<Lowered, Error> {
    let (dst, [src, indices, updates]) = (&command.outputs()[0], command.inputs()) else {
        return Ok(Lowered::default());
    };
    let mut lowered = match dst == src {
        true => Lowered::default(),
        false => lower_copy(dst, src, limits),
    };
    // All updates of an output without elements are faults.
    if updates.layout.is_empty() {
        return Ok(lowered);
    }
    let (dense, indexed, by) = (&updates.layout, &dst.layout, &indices.layout);
    // Updates that differ before the axis never go to the same element, so groups can share them.
    let (slices, reduction, apart) = match command.op() {
        Op::ScatterElements { axis, reduction } => {
            let axis = usize::from(*axis);
            let apart = by.shape()[..axis].iter().product();
            (Slices::elements(axis, dense, indexed, by), *reduction, apart)
        }
        Op::ScatterNd { reduction } => (Slices::tuples(0, dense, indexed, by), *reduction, 1),
        other => return Err(super::unsupported(other, "it is no scatter")),
    };
    // Items must keep their order; columns need not.
    let mut items = Axes::merge(slices.all.into_iter());
    let mut list = slices.slice;
    list.retain(|axis| axis.0 != 1);
    list.sort_by_key(|(_, strides)| std::cmp::Reverse(strides[1]));
    let mut slice = Axes::merge(list.into_iter());
    let dtype = indexed.dtype();
    let (mut ratio, mut kind) = (1, dtype as i32);
    if reduction == ScatterReduction::Replace {
        let size = dtype.size();
        let mut unit = size;
        let (inner, steps) = slice.axes[0];
        if steps == [1, 1] {
            let outer = slice.axes[1..].iter().flat_map(|(_, strides)| *strides);
            let moved = items.axes.iter().filter(|axis| axis.0 > 1);
            let moved = moved.flat_map(|(_, strides)| [strides[0], strides[1]]);
            let lengths = outer.chain(moved).chain([inner]).chain(slices.tuple.strides());
            unit = widest_unit([dst, updates], lengths);
        }
        (ratio, kind) = (unit / size, unit as i32);
    }
    in_units(&mut slice, 2, ratio);
    for (_, strides) in &mut items.axes {
        strides[..2].iter_mut().for_each(|stride| *stride /= ratio);
    }
    let (count, columns) = (items.elements(), slice.elements());
    let threads = limits.usual_threads();
    let width = columns.next_power_of_two().min(threads as usize);
    let wanted = limits.parallel_groups.max(1) as usize * 2;
    let across = columns.div_ceil(width).min(wanted);
    let parts = apart.min(wanted.div_ceil(across));
    let part = apart.div_ceil(parts) * (count / apart);
    let parts = count.div_ceil(part);
    let shares = (wanted / (across * parts)).clamp(1, part.div_ceil(threads as usize));
    let wide = is_wide([dst, indices, updates]);
    let constants = [
        reduction_code(reduction),
        if dtype == DType::Bool && reduction != ScatterReduction::Replace {
            DType::U8 as i32
        } else {
            kind
        },
        bucket(items.rank()),
        if slice.rank() == 1 { 1 } else { 8 },
        wide.into(),
        threads as i32,
    ];
    lowered.launches.push(Launch {
        key: Key::new(Program::Scatter, &constants),
        groups: [shares as u32, parts as u32, across as u32],
        threads,
        slots: smallvec![Slot::from(dst), Slot::from(indices), Slot::from(updates), Slot::Faults],
        params: ScatterParams {
            items: items.walk([dense.offset() / ratio, indexed.offset() / ratio, by.offset()]),
            slice: slice.walk([0, 0]),
            tuple: slices.tuple.in_units(ratio),
            part: part as u64,
            columns: width as u32,
            index,
        }
        .pack(),
    });
    Ok(lowered)
}

/// Rounds a rank up to a few values, so that there are fewer kernels.
fn bucket(rank: i32) -> i32 {
    match rank {
        1 => 1,
        2..=4 => 4,
        _ => 8,
    }
}

fn reduction_code(reduction: ScatterReduction) -> i32 {
    match reduction {
        ScatterReduction::Replace => 0,
        ScatterReduction::Add => 1,
        ScatterReduction::Multiply => 2,
        ScatterReduction::Max => 3,
        ScatterReduction::Min => 4,
    }
}
