//! Products of `f32` that are too small for the tiles of a library, such as the linear layers of a sentence, on devices that
//! copy to group memory while they compute.

use millstream_core::DType;

use super::gemv::GemvParams;
use super::matmul_pipelined::{fit_group, is_read_by_rows, launch_of};
use super::product::{DST, Product};
use crate::program::Definition;
use crate::{Key, Launch, Limits, Program};

/// For products with more multiplications a library's kernels are as fast.
const MAX_WORK: usize = 1 << 27;
/// With fewer rows most of a tile would have no work.
const LEAST_ROWS: usize = 17;
/// Elements that are loaded at once, and what is left unused behind each row in group memory.
const VECTOR: usize = 4;
/// Threads along n that have a tile together.
const LANES_N: usize = 8;

pub(crate) const PROGRAM: Definition = Definition {
    name: "matmul_pipelined_f32",
    text: include_str!("../../programs/matmul_pipelined_f32.kernel"),
    constants: &[
        "ACT", "ROWS", "COLUMNS", "LANES_M", "SLICES", "STEP", "STAGES", "BY_ROWS", "WHOLE",
        "WIDE", "THREADS",
    ],
    params: GemvParams::declaration,
};

/// The work of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tile {
    /// Results of a thread.
    rows: usize,
    columns: usize,
    /// Threads along m that have a tile together.
    lanes: usize,
    /// Sets of threads that share k.
    slices: usize,
    /// Values of k between two barriers.
    step: usize,
    /// Steps that are in group memory or on their way there.
    stages: usize,
}

/// Tiles from the smallest to the largest.
const TILES: [Tile; 2] = [
    Tile { rows: 4, columns: 4, lanes: 4, slices: 8, step: 64, stages: 3 },
    Tile { rows: 8, columns: 4, lanes: 4, slices: 4, step: 32, stages: 4 },
];

impl Tile {
    fn size(&self) -> [usize; 2] {
        [self.lanes * self.rows, LANES_N * self.columns]
    }

    fn threads(&self) -> usize {
        LANES_N * self.lanes * self.slices
    }

    fn groups(&self, m: usize, n: usize) -> [usize; 2] {
        let [rows, columns] = self.size();
        [m.div_ceil(rows), n.div_ceil(columns)]
    }

    /// The smallest tile with which every group has its own processor, else the largest.
    fn choose([m, n]: [usize; 2], batch: usize, limits: &Limits) -> Option<Self> {
        let processors = (limits.parallel_groups as usize / 4).max(1);
        let suits = |tile: &&Tile| {
            let [rows, columns] = tile.groups(m, n);
            rows * columns * batch <= processors
        };
        TILES.iter().find(suits).or(TILES.last())?.fitted(limits)
    }

    /// The same tile with as many threads and as much memory as a group may have.
    fn fitted(self, limits: &Limits) -> Option<Self> {
        let with = |[slices, stages]: [usize; 2]| Self { slices, stages, ..self };
        let needs = |parts: [usize; 2]| (with(parts).threads(), with(parts).shared_bytes());
        fit_group([self.slices, self.stages], limits, needs).map(with)
    }

    /// Whether all steps are whole, also those that are copied before the first product.
    fn is_whole(&self, k: usize) -> bool {
        k.is_multiple_of(self.step) && k >= (self.stages - 1) * self.step
    }

    /// Bytes of group memory: the stages, later the sums of all slices.
    fn shared_bytes(&self) -> usize {
        let [m, n] = self.size();
        let by_rows = m * (self.step + VECTOR) + self.step * (n + VECTOR);
        let stage = by_rows.max((m + n) * (self.step + VECTOR));
        (self.stages * stage).max(self.slices * m * (n + VECTOR)) * size_of::<f32>()
    }
}

/// The launch of a product of `f32` that a library would not do better, or `None` for any other and for a device without such
/// copies, which those with tensor cores have. `early` is as for [`lower_gemv`](crate::lower_gemv).
pub(super) fn launch(product: &Product, early: bool, limits: &Limits) -> Option<Launch> {
    let batch = product.batch.elements();
    let sizes = [product.m, product.n, product.k, batch];
    let work = sizes.into_iter().fold(1, usize::saturating_mul);
    if product.m < LEAST_ROWS || work > MAX_WORK {
        return None;
    }
    launch_any(product, early, limits)
}

/// The same for a product of any size that a launch can have.
pub(super) fn launch_any(product: &Product, early: bool, limits: &Limits) -> Option<Launch> {
    let Product { m, n, k, .. } = *product;
    if !limits.tensor_cores || product.matrices[DST].dtype != DType::F32 {
        return None;
    }
    let by_rows = is_read_by_rows(product, VECTOR)?;
    let (batch, _) = product.batch.axes[0];
    let tile = Tile::choose([m, n], batch, limits)?;
    let params = GemvParams::of(product, early);
    let constants = [
        params.act as i32,
        tile.rows as i32,
        tile.columns as i32,
        tile.lanes as i32,
        tile.slices as i32,
        tile.step as i32,
        tile.stages as i32,
        by_rows.into(),
        tile.is_whole(k).into(),
        product.wide.into(),
        tile.threads() as i32,
    ];
    let key = Key::new(Program::MatmulPipelinedF32, &constants);
    launch_of(product, key, tile.groups(m, n), tile.threads(), &params)
}

#[cfg(test)]
mod tests;
