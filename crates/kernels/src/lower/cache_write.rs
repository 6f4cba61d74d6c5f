//! Writing into a cache.

use millstream_core::{BoundCommand, CacheWriteOperands, DType};
use smallvec::smallvec;

use super::copy::lower_copy;
use super::index::{AxisList, in_units, widest_unit};
use crate::params::params;
use crate::program::Definition;
use crate::walk::{Axes, Walk, is_wide};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `cache_write`.
    CacheWriteParams {
        /// Update, output without the axis, index on the axis, and positions.
        walk: Walk<4>,
        /// Size and stride of the output's axis.
        longest: u64,
        stride: u64,
        /// Size of the update's axis.
        count: u64,
        wide: u32,
        has_positions: u32,
        circular: u32,
        index: u32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "cache_write",
    text: include_str!("../../programs/cache_write.kernel"),
    constants: &["SIZE", "RANK", "WIDE"],
    params: CacheWriteParams::declaration,
};

pub(super) fn lower(
    command: &BoundCommand,
    axis: usize,
    circular: bool,
    index: u32,
    limits: &Limits,
) -> Lowered {
    let CacheWriteOperands { dst, cache, update, positions } = CacheWriteOperands::of(command);
    let mut lowered = match dst == cache {
        true => Lowered::default(),
        false => lower_copy(dst, cache, limits),
    };
    if update.layout.is_empty() {
        return lowered;
    }
    let (from, to) = (&update.layout, &dst.layout);
    let given = positions.map_or(0, |positions| positions.layout.strides()[0]);
    let mut list: AxisList<4> = (0..from.rank())
        .map(|i| {
            let (along, by) = (usize::from(i == axis), if i == 0 { given } else { 0 });
            let stride = if i == axis { 0 } else { to.strides()[i] };
            (from.shape()[i], [from.strides()[i], stride, along, by])
        })
        .collect();
    list.retain(|axis| axis.0 != 1);
    list.sort_by_key(|(_, strides)| std::cmp::Reverse(strides[0]));
    let mut axes = Axes::merge(list.into_iter());
    let size = to.dtype().size();
    let (inner, steps) = axes.axes[0];
    let mut unit = size;
    if steps == [1, 1, 0, 0] {
        let outer = axes.axes[1..].iter().flat_map(|(_, strides)| [strides[0], strides[1]]);
        unit = widest_unit([dst, update], outer.chain([inner, to.strides()[axis]]));
    }
    let ratio = unit / size;
    in_units(&mut axes, 2, ratio);
    let offset = positions.map_or(0, |positions| positions.layout.offset());
    let threads = limits.usual_threads();
    let wide = is_wide([dst, update].into_iter().chain(positions));
    lowered.launches.push(Launch {
        key: Key::new(Program::CacheWrite, &[unit as i32, axes.rank(), wide.into()]),
        groups: [limits.groups_for(axes.elements(), threads), 1, 1],
        threads,
        // Another operand stands in for absent positions. The kernel does not read it as such.
        slots: smallvec![
            Slot::from(dst),
            Slot::from(update),
            Slot::from(positions.unwrap_or(update)),
            Slot::Faults
        ],
        params: CacheWriteParams {
            walk: axes.walk([from.offset() / ratio, to.offset() / ratio, 0, offset]),
            longest: to.shape()[axis] as u64,
            stride: (to.strides()[axis] / ratio) as u64,
            count: from.shape()[axis] as u64,
            wide: positions.is_some_and(|at| at.layout.dtype() == DType::I64).into(),
            has_positions: positions.is_some().into(),
            circular: circular.into(),
            index,
        }
        .pack(),
    });
    lowered
}
