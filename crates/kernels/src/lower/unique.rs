//! Distinct items: items are sorted, and the first of each kind are found.

use millstream_core::{BoundCommand, DType, Error};
use smallvec::smallvec;

use super::compact::{Flags, Found, items, take};
use crate::params::params;
use crate::program::Definition;
use crate::walk::{Axes, Walk, is_wide};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `unique`.
    UniqueParams {
        /// The start of each item, and the elements of one.
        items: Walk<1>,
        slice: Walk<1>,
        /// How many numbers are sorted; a power of two.
        padded: u64,
        /// The step of the sort.
        run: u64,
        distance: u64,
    }
}

params! {
    /// The params of `unique_finish`.
    FinishParams {
        /// Offsets of first, inverse and counts.
        offset: [u64; 3],
        step: [u64; 3],
        count: u64,
        chunks: u64,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "unique",
    text: include_str!("../../programs/unique.kernel"),
    constants: &["TYPE", "STAGE", "COUNT", "ITEM_RANK", "SLICE_RANK", "WIDE"],
    params: UniqueParams::declaration,
};

pub(crate) const FINISH: Definition = Definition {
    name: "unique_finish",
    text: include_str!("../../programs/unique_finish.kernel"),
    constants: &["SORTED"],
    params: FinishParams::declaration,
};

/// How many numbers a group sorts.
const TILE: usize = 1024;

pub(super) fn lower(
    command: &BoundCommand,
    axis: Option<usize>,
    sorted: bool,
    limits: &Limits,
) -> Result<Lowered, Error> {
    let ([values, lists @ .., count], [src]) = (command.outputs(), command.inputs()) else {
        return Ok(Lowered::default());
    };
    let layout = &src.layout;
    let all = items(layout, axis);
    let number = all.elements();
    if u32::try_from(number).is_err() {
        return Err(super::unsupported(command.op(), "there are more than 2³² items"));
    }
    let mut lowered = Lowered::default();
    let padded = number.next_power_of_two().max(TILE);
    let order = lowered.reserve(padded * 4);
    let [heads, firsts] = [(); 2].map(|()| lowered.reserve(number));
    if number > 0 {
        let others = axis.map_or(0..0, |_| 0..layout.rank()).filter(|&other| Some(other) != axis);
        let slice =
            Axes::merge(others.map(|other| (layout.shape()[other], [layout.strides()[other]])));
        let launch_params = UniqueParams {
            items: all.walk([layout.offset()]),
            slice: slice.walk([0]),
            padded: padded as u64,
            run: 0,
            distance: 0,
        };
        let ranks = [all.rank(), slice.rank()];
        let slots = [Slot::from(src), order, heads, firsts];
        let dtype = layout.dtype();
        let wide = is_wide([src]);
        let mut sort =
            Sort { launch_params, ranks, slots, dtype, wide, limits, lowered: &mut lowered };
        sort.all();
        sort.stage(3, number.div_ceil(limits.usual_threads() as usize));
    }
    let flags = |slot: Slot| Flags {
        slot,
        dtype: DType::Bool,
        axes: Axes::merge([(number, [1])].into_iter()),
        offset: 0,
        wide: number >= 1 << 30,
    };
    let found = Found::new(&mut lowered, &flags(heads), Some(count), limits);
    if number == 0 {
        return Ok(lowered);
    }
    let came = match sorted {
        true => found,
        false => Found::new(&mut lowered, &flags(firsts), None, limits),
    };
    let of = |value: &dyn Fn(&millstream_core::Layout) -> usize| {
        std::array::from_fn(|list: usize| value(&lists[list].layout) as u64)
    };
    let launch_params = FinishParams {
        offset: of(&|layout| layout.offset()),
        step: of(&|layout| layout.strides()[0]),
        count: number as u64,
        chunks: found.chunks as u64,
    };
    let threads = limits.usual_threads();
    let [first, inverse, counts] = [0, 1, 2].map(|list: usize| Slot::from(&lists[list]));
    lowered.launches.push(Launch {
        key: Key::new(Program::UniqueFinish, &[sorted.into()]),
        groups: [limits.groups_for(number, threads), 1, 1],
        threads,
        slots: smallvec![first, inverse, counts, order, found.slot, came.slot],
        params: launch_params.pack(),
    });
    // If items are not sorted, what was found are the items themselves, in the order in which they first occur.
    let order = sorted.then_some(order);
    take(&mut lowered, (values, src), axis, came, order, limits);
    Ok(lowered)
}

/// The launches that sort.
struct Sort<'a> {
    launch_params: UniqueParams,
    /// The ranks of items and of the elements of one.
    ranks: [i32; 2],
    slots: [Slot; 4],
    dtype: DType,
    wide: bool,
    limits: &'a Limits,
    lowered: &'a mut Lowered,
}

impl Sort<'_> {
    fn all(&mut self) {
        let padded = self.launch_params.padded as usize;
        self.stage(0, padded / TILE);
        let mut run = 2 * TILE;
        while run <= padded {
            self.launch_params.run = run as u64;
            let mut distance = run / 2;
            while distance >= TILE {
                self.launch_params.distance = distance as u64;
                self.stage(1, (padded / 2).div_ceil(self.limits.usual_threads() as usize));
                distance /= 2;
            }
            self.stage(2, padded / TILE);
            run *= 2;
        }
    }

    fn stage(&mut self, stage: i32, groups: usize) {
        let [items, slice] = self.ranks;
        let constants = [self.dtype as i32, stage, TILE as i32, items, slice, self.wide.into()];
        self.lowered.launches.push(Launch {
            key: Key::new(Program::Unique, &constants),
            groups: [self.limits.groups_for(groups, 1), 1, 1],
            threads: self.limits.usual_threads(),
            slots: self.slots.into_iter().collect(),
            params: self.launch_params.pack(),
        });
    }
}
