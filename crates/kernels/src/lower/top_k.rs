//! The largest and smallest elements along an axis.
//!
//! Rows are cut into tiles. A group sorts each tile and keeps the best elements, until one tile is left. If most of a
//! tile would be kept, whole rows are sorted in memory instead.

use millstream_core::{BoundCommand, DType, Error, Operand, RawBuffer};
use smallvec::smallvec;

use super::copy::raw;
use crate::params::params;
use crate::program::Definition;
use crate::walk::{Axes, Walk};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `top_k` and `sort`.
    TopKParams {
        /// Rows of values, indices and input.
        rows: Walk<3>,
        /// The first row of the walk.
        first_row: u64,
        /// Strides along the axis.
        value_step: u64,
        index_step: u64,
        step: u64,
        /// Elements of a row, or entries that an earlier pass kept of it.
        length: u64,
        /// How many elements are wanted.
        k: u64,
        /// Tiles per row.
        tiles: u64,
        /// Entries of a row in memory; a power of two.
        padded: u64,
        /// The step of the sort.
        run: u64,
        distance: u64,
        /// Whether the largest come first.
        falls: u32,
        /// Whether results are in the order of their indices.
        by_place: u32,
    }
}

pub(crate) const TILES: Definition = Definition {
    name: "top_k",
    text: include_str!("../../programs/top_k.kernel"),
    constants: &["TYPE", "FROM", "COUNT"],
    params: TopKParams::declaration,
};

pub(crate) const SORT: Definition = Definition {
    name: "sort",
    text: include_str!("../../programs/sort.kernel"),
    constants: &["TYPE", "STAGE", "COUNT"],
    params: TopKParams::declaration,
};

/// Rows are sorted in memory in several parts, so that scratch memory stays about this small.
const SORT_BYTES: usize = 256 << 20;

/// The lowering of one Command.
struct TopK<'a> {
    operands: [&'a Operand<RawBuffer>; 3],
    params: TopKParams,
    limits: &'a Limits,
    rows: usize,
    /// Bytes of an entry: a sort key and an index.
    entry: usize,
    lowered: Lowered,
}

pub(super) fn lower(
    command: &BoundCommand,
    axis: usize,
    (largest, sorted): (bool, bool),
    limits: &Limits,
) -> Result<Lowered, Error> {
    let ([values, indices], [src]) = (command.outputs(), command.inputs()) else {
        return Ok(Lowered::default());
    };
    if values.layout.is_empty() {
        return Ok(Lowered::default());
    }
    let operands = [values, indices, src];
    let steps = operands.map(|operand| operand.layout.strides()[axis] as u64);
    let others = (0..src.layout.rank()).filter(|&other| other != axis).map(|other| {
        (src.layout.shape()[other], operands.map(|operand| operand.layout.strides()[other]))
    });
    let rows = Axes::merge(others);
    let (length, k) = (src.layout.shape()[axis], values.layout.shape()[axis]);
    let entry = if src.layout.dtype().size() == 8 { 16 } else { 8 };
    if entry == 8 && u32::try_from(length).is_err() {
        return Err(super::unsupported(command.op(), "a row has more than 2³² elements"));
    }
    let params = TopKParams {
        rows: rows.walk(operands.map(|operand| operand.layout.offset())),
        first_row: 0,
        value_step: steps[0],
        index_step: steps[1],
        step: steps[2],
        length: length as u64,
        k: k as u64,
        tiles: 1,
        padded: 0,
        run: 0,
        distance: 0,
        falls: largest.into(),
        by_place: (!sorted).into(),
    };
    let rows = rows.elements();
    let mut top_k = TopK { operands, params, limits, rows, entry, lowered: Lowered::default() };
    if length > top_k.tile() && k > top_k.tile() / 2 {
        top_k.sort();
    } else {
        top_k.select();
    }
    Ok(top_k.lowered)
}

impl TopK<'_> {
    /// The most entries that a group sorts: 16 KiB of them.
    fn tile(&self) -> usize {
        (16 << 10) / self.entry
    }

    fn dtype(&self) -> DType {
        self.operands[2].layout.dtype()
    }

    fn launch(&mut self, key: Key, count: usize, items: usize, memory: [Slot; 2]) {
        let [values, indices, src] = self.operands.map(Slot::from);
        let threads = self.limits.usual_threads().min((count / 2) as u32);
        self.lowered.launches.push(Launch {
            key,
            groups: [self.limits.groups_for(items, 1), 1, 1],
            threads,
            slots: smallvec![values, indices, src, memory[0], memory[1]],
            params: self.params.pack(),
        });
    }

    /// Passes over tiles; each keeps the best of every tile.
    fn select(&mut self) {
        let (mut length, k) = (self.params.length as usize, self.params.k as usize);
        // Entries that are neither read nor written may lie anywhere.
        let mut found = Slot::from(self.operands[2]);
        for pass in 0.. {
            let count = [64, 512].into_iter().find(|&count| length <= count).unwrap_or(self.tile());
            let tiles = length.div_ceil(count);
            let kept = match tiles {
                1 => found,
                _ => self.lowered.reserve(self.rows * tiles * k * self.entry),
            };
            (self.params.length, self.params.tiles) = (length as u64, tiles as u64);
            let dtype = if pass == 0 { self.dtype() as i32 } else { raw(self.dtype().size()) };
            let key = Key::new(Program::TopK, &[dtype, (pass > 0).into(), count as i32]);
            self.launch(key, count, self.rows * tiles, [found, kept]);
            if tiles == 1 {
                return;
            }
            (length, found) = (tiles * k, kept);
        }
    }

    /// Sorts whole rows in memory, and takes the first elements of each.
    fn sort(&mut self) {
        let (length, k) = (self.params.length as usize, self.params.k as usize);
        let padded = length.next_power_of_two();
        let short = k.next_power_of_two().max(self.tile());
        let row = (padded + short) * self.entry;
        let part = (SORT_BYTES / row).clamp(1, self.rows);
        let whole = self.lowered.reserve(part * padded * self.entry);
        let by_place = self.params.by_place != 0;
        let best = match by_place {
            true => self.lowered.reserve(part * short * self.entry),
            false => whole,
        };
        let src = Slot::from(self.operands[2]);
        for first in (0..self.rows).step_by(part) {
            let rows = part.min(self.rows - first);
            (self.params.first_row, self.params.rows.count) = (first as u64, rows as u64);
            self.params.padded = padded as u64;
            self.stage(0, rows * padded / self.tile(), [src, whole]);
            self.merge(rows, padded, whole);
            if by_place {
                (self.params.length, self.params.padded) = (padded as u64, short as u64);
                self.stage(3, rows * short / self.tile(), [whole, best]);
                self.merge(rows, short, best);
                self.params.length = length as u64;
            }
            let groups = (rows * k).div_ceil(self.limits.usual_threads() as usize);
            self.stage(4, groups, [best, src]);
        }
    }

    /// Merges sorted tiles into sorted rows.
    fn merge(&mut self, rows: usize, padded: usize, memory: Slot) {
        let tile = self.tile();
        let mut run = 2 * tile;
        while run <= padded {
            self.params.run = run as u64;
            let mut distance = run / 2;
            while distance >= tile {
                self.params.distance = distance as u64;
                let pairs = rows * padded / 2;
                self.stage(1, pairs.div_ceil(self.limits.usual_threads() as usize), [memory; 2]);
                distance /= 2;
            }
            self.stage(2, rows * padded / tile, [memory; 2]);
            run *= 2;
        }
    }

    fn stage(&mut self, stage: i32, items: usize, memory: [Slot; 2]) {
        let dtype = if stage == 0 { self.dtype() as i32 } else { raw(self.dtype().size()) };
        let tile = self.tile();
        let key = Key::new(Program::Sort, &[dtype, stage, tile as i32]);
        self.launch(key, tile, items, memory);
    }
}
