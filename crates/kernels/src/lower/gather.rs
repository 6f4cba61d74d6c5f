//! Reading by index.

use millstream_core::{BoundCommand, Op};
use smallvec::smallvec;

use super::index::{AxisList, Slices, Tuple, in_units, widest_unit};
use crate::params::params;
use crate::program::Definition;
use crate::walk::{Axes, Walk, is_wide};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `gather`.
    GatherParams {
        walk: Walk<3>,
        tuple: Tuple,
        index: u32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "gather",
    text: include_str!("../../programs/gather.kernel"),
    constants: &["SIZE", "RANK", "WIDE"],
    params: GatherParams::declaration,
};

pub(super) fn lower(command: &BoundCommand, index: u32, limits: &Limits) -> Lowered {
    let (dst, [src, indices]) = (&command.outputs()[0], command.inputs()) else {
        return Lowered::default();
    };
    if dst.layout.is_empty() {
        return Lowered::default();
    }
    let (to, from, by) = (&dst.layout, &src.layout, &indices.layout);
    let slices = match command.op() {
        Op::Gather { axis } => Slices::along(usize::from(*axis), to, from, by),
        Op::GatherElements { axis } => Slices::elements(usize::from(*axis), to, from, by),
        Op::GatherNd { batch_axes } => Slices::tuples(usize::from(*batch_axes), to, from, by),
        _ => Slices::along(0, to, from, by),
    };
    let mut list: AxisList<3> = slices.all;
    list.extend(slices.slice.iter().map(|&(size, [to, from])| (size, [to, from, 0])));
    // All elements are treated alike, so axes are ordered by the strides of the output.
    list.retain(|axis| axis.0 != 1);
    list.sort_by_key(|(_, strides)| std::cmp::Reverse(strides[0]));
    let mut axes = Axes::merge(list.into_iter());
    let size = to.dtype().size();
    let (inner, steps) = axes.axes[0];
    let mut unit = size;
    if steps == [1, 1, 0] {
        let outer = axes.axes[1..].iter().flat_map(|(_, strides)| [strides[0], strides[1]]);
        let lengths = outer.chain([inner]).chain(slices.tuple.strides());
        unit = widest_unit([dst, src], lengths);
    }
    let ratio = unit / size;
    in_units(&mut axes, 2, ratio);
    let walk = axes.walk([to.offset() / ratio, from.offset() / ratio, by.offset()]);
    let threads = limits.usual_threads();
    let launch = Launch {
        key: Key::new(
            Program::Gather,
            &[unit as i32, axes.rank(), is_wide([dst, src, indices]).into()],
        ),
        groups: [limits.groups_for(axes.elements(), threads), 1, 1],
        threads,
        slots: smallvec![Slot::from(dst), Slot::from(src), Slot::from(indices), Slot::Faults],
        params: GatherParams { walk, tuple: slices.tuple.in_units(ratio), index }.pack(),
    };
    Lowered { launches: smallvec![launch], workspace: 0 }
}
