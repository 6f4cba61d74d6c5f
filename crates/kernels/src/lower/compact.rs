//! Operations whose number of results depends on the data: the positions of flags that are set, and the elements
//! there.

use millstream_core::{BoundCommand, DType, Layout, MAX_RANK, Operand, RawBuffer};
use smallvec::smallvec;

use super::index::{AxisList, in_units, widest_unit};
use crate::params::params;
use crate::program::Definition;
use crate::walk::{Axes, Walk, is_wide};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `compact`.
    CompactParams {
        walk: Walk<1>,
        /// Elements per chunk, and the number of chunks.
        chunk: u64,
        chunks: u64,
        count_at: u64,
        has_count: u32,
    }
}

params! {
    /// The params of `nonzero`.
    NonZeroParams {
        shape: [u64; MAX_RANK],
        /// How many elements one step along each axis skips.
        inner: [u64; MAX_RANK],
        rank: u64,
        size: u64,
        offset: u64,
        row: u64,
        column: u64,
        chunks: u64,
    }
}

params! {
    /// The params of `take`.
    TakeParams {
        walk: Walk<3>,
        items: Walk<1>,
        chunks: u64,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "compact",
    text: include_str!("../../programs/compact.kernel"),
    constants: &["TYPE", "STAGE", "RANK", "WIDE"],
    params: CompactParams::declaration,
};

pub(crate) const NONZERO: Definition = Definition {
    name: "nonzero",
    text: include_str!("../../programs/nonzero.kernel"),
    constants: &[],
    params: NonZeroParams::declaration,
};

pub(crate) const TAKE: Definition = Definition {
    name: "take",
    text: include_str!("../../programs/take.kernel"),
    constants: &["SIZE", "RANK", "ITEM_RANK", "INDIRECT", "WIDE"],
    params: TakeParams::declaration,
};

/// The fewest elements of a chunk that one thread checks.
const PER_THREAD: usize = 16;

/// Elements that are used as flags.
pub(super) struct Flags {
    pub slot: Slot,
    pub dtype: DType,
    pub axes: Axes<1>,
    pub offset: usize,
    pub wide: bool,
}

impl Flags {
    /// All elements of an operand, in row-major order.
    fn of(operand: &Operand<RawBuffer>) -> Self {
        let layout = &operand.layout;
        Self {
            slot: operand.into(),
            dtype: layout.dtype(),
            axes: row_major(layout),
            offset: layout.offset(),
            wide: is_wide([operand]),
        }
    }
}

/// The axes of a layout in row-major order.
pub(super) fn row_major(layout: &Layout) -> Axes<1> {
    Axes::merge((0..layout.rank()).map(|axis| (layout.shape()[axis], [layout.strides()[axis]])))
}

/// The positions of flags that are set, in scratch memory. It has 64 bits for every chunk, for the number of
/// positions, and for each position.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub slot: Slot,
    pub chunks: usize,
}

impl Found {
    pub fn new(
        lowered: &mut Lowered,
        flags: &Flags,
        count: Option<&Operand<RawBuffer>>,
        limits: &Limits,
    ) -> Self {
        let elements = flags.axes.elements();
        let threads = limits.usual_threads();
        let most = limits.parallel_groups.max(1) as usize * 4;
        let chunks = elements.div_ceil(threads as usize * PER_THREAD).min(most);
        let slot = lowered.reserve((chunks + 1 + elements) * 8);
        let launch_params = CompactParams {
            walk: flags.axes.walk([flags.offset]),
            chunk: elements.div_ceil(chunks.max(1)) as u64,
            chunks: chunks as u64,
            count_at: count.map_or(0, |count| count.layout.offset() as u64),
            has_count: count.is_some().into(),
        };
        // If nobody asks for the number, the kernel does not write it.
        let count = count.map_or(slot, Slot::from);
        for stage in 0..3 {
            if stage != 1 && elements == 0 {
                continue;
            }
            let (dtype, rank) = match stage {
                1 => (DType::U8, 1),
                _ => (flags.dtype, flags.axes.rank()),
            };
            let constants = [dtype as i32, stage, rank, flags.wide.into()];
            lowered.launches.push(Launch {
                key: Key::new(Program::Compact, &constants),
                groups: [if stage == 1 { 1 } else { chunks as u32 }, 1, 1],
                threads,
                slots: smallvec![flags.slot, slot, count],
                params: launch_params.pack(),
            });
        }
        Self { slot, chunks }
    }
}

pub(super) fn lower_nonzero(command: &BoundCommand, limits: &Limits) -> Lowered {
    let (outputs, src) = (command.outputs(), &command.inputs()[0]);
    let (indices, count) = (&outputs[0], &outputs[1]);
    let mut lowered = Lowered::default();
    let found = Found::new(&mut lowered, &Flags::of(src), Some(count), limits);
    if indices.layout.is_empty() {
        return lowered;
    }
    let mut launch_params = NonZeroParams {
        shape: [1; MAX_RANK],
        inner: [1; MAX_RANK],
        rank: src.layout.rank() as u64,
        size: src.layout.elements() as u64,
        offset: indices.layout.offset() as u64,
        row: indices.layout.strides()[0] as u64,
        column: indices.layout.strides()[1] as u64,
        chunks: found.chunks as u64,
    };
    let mut inner = 1;
    for (axis, &size) in src.layout.shape().iter().enumerate().rev() {
        (launch_params.shape[axis], launch_params.inner[axis]) = (size as u64, inner);
        inner *= size as u64;
    }
    let threads = limits.usual_threads();
    lowered.launches.push(Launch {
        key: Key::new(Program::NonZero, &[]),
        groups: [limits.groups_for(indices.layout.elements(), threads), 1, 1],
        threads,
        slots: smallvec![Slot::from(indices), found.slot],
        params: launch_params.pack(),
    });
    lowered
}

pub(super) fn lower_compress(
    command: &BoundCommand,
    axis: Option<usize>,
    limits: &Limits,
) -> Lowered {
    let ([dst, count], [src, condition]) = (command.outputs(), command.inputs()) else {
        return Lowered::default();
    };
    let mut lowered = Lowered::default();
    let found = Found::new(&mut lowered, &Flags::of(condition), Some(count), limits);
    take(&mut lowered, (dst, src), axis, found, None, limits);
    lowered
}

/// The items of an operand: slices along an axis, or elements in row-major order.
pub(super) fn items(layout: &Layout, axis: Option<usize>) -> Axes<1> {
    match axis {
        Some(axis) => Axes::merge([(layout.shape()[axis], [layout.strides()[axis]])].into_iter()),
        None => row_major(layout),
    }
}

/// Fills the first operand with the items of the second that were found, followed by zeros. With an order, items are
/// numbered by it.
pub(super) fn take(
    lowered: &mut Lowered,
    (dst, src): (&Operand<RawBuffer>, &Operand<RawBuffer>),
    axis: Option<usize>,
    found: Found,
    order: Option<Slot>,
    limits: &Limits,
) {
    let (to, from) = (&dst.layout, &src.layout);
    if to.is_empty() {
        return;
    }
    let mut list: AxisList<3> = match axis {
        Some(along) => (0..to.rank())
            .map(|axis| match axis == along {
                true => (to.shape()[axis], [to.strides()[axis], 0, 1]),
                false => (to.shape()[axis], [to.strides()[axis], from.strides()[axis], 0]),
            })
            .collect(),
        None => smallvec![(to.shape()[0], [to.strides()[0], 0, 1])],
    };
    list.retain(|axis| axis.0 != 1);
    list.sort_by_key(|(_, strides)| std::cmp::Reverse(strides[0]));
    let mut axes = Axes::merge(list.into_iter());
    let mut items = items(from, axis);
    let size = to.dtype().size();
    let (inner, steps) = axes.axes[0];
    let mut unit = size;
    if steps == [1, 1, 0] {
        let outer = axes.axes[1..].iter().flat_map(|(_, strides)| [strides[0], strides[1]]);
        let between = items.axes.iter().map(|(_, strides)| strides[0]);
        unit = widest_unit([dst, src], outer.chain(between).chain([inner]));
    }
    let ratio = unit / size;
    in_units(&mut axes, 2, ratio);
    items.axes.iter_mut().for_each(|(_, strides)| strides[0] /= ratio);
    let wide = is_wide([dst, src]);
    let constants = [unit as i32, axes.rank(), items.rank(), order.is_some().into(), wide.into()];
    let launch_params = TakeParams {
        walk: axes.walk([to.offset() / ratio, 0, 0]),
        items: items.walk([from.offset() / ratio]),
        chunks: found.chunks as u64,
    };
    let threads = limits.usual_threads();
    lowered.launches.push(Launch {
        key: Key::new(Program::Take, &constants),
        groups: [limits.groups_for(axes.elements(), threads), 1, 1],
        threads,
        slots: smallvec![Slot::from(dst), Slot::from(src), found.slot, order.unwrap_or(found.slot)],
        params: launch_params.pack(),
    });
}
