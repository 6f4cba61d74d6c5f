//! Products of 16-bit numbers by tensor cores that are too small for the tiles of a library, such as the linear layers of
//! a sentence.

use millstream_core::DType;

use super::gemv::GemvParams;
use super::product::{A, B, BIAS, DST, Product, RESIDUAL};
use crate::program::Definition;
use crate::{Key, Launch, Limits, Program};

/// For products with more multiplications a library's kernels are faster.
const MAX_WORK: usize = 1 << 27;
/// With fewer rows most of a tile would have no work.
const LEAST_ROWS: usize = 17;
/// Groups of a launch along its second and third axis.
const MAX_GROUPS: usize = 65535;
/// Elements that are loaded at once.
const VECTOR: usize = 8;
/// What is left unused behind each row of a stage, and of the sums.
const PAD: usize = 8;

pub(crate) const PROGRAM: Definition = Definition {
    name: "matmul_pipelined",
    text: include_str!("../../programs/matmul_pipelined.kernel"),
    constants: &[
        "DTYPE", "ACT", "ROWS", "COLUMNS", "GRID_M", "GRID_N", "SLICES", "STEP", "STAGES",
        "BY_ROWS", "WHOLE", "WIDE", "THREADS",
    ],
    params: GemvParams::declaration,
};

/// The work of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tile {
    /// Matrices of 16 × 16 results of a simd group.
    rows: usize,
    columns: usize,
    /// Simd groups with different results.
    grid: [usize; 2],
    /// Simd groups that share k.
    slices: usize,
    /// Values of k between two barriers.
    step: usize,
    /// Steps that are in group memory or on their way there.
    stages: usize,
}

/// Tiles from the smallest to the largest.
const TILES: [Tile; 2] = [
    Tile { rows: 1, columns: 2, grid: [2, 1], slices: 4, step: 64, stages: 4 },
    Tile { rows: 2, columns: 2, grid: [1, 2], slices: 4, step: 64, stages: 3 },
];

/// So many slices and stages, or fewer where a group has no room for the threads and bytes that they need.
pub(super) fn fit_group(
    [mut slices, mut stages]: [usize; 2],
    limits: &Limits,
    needs: impl Fn([usize; 2]) -> (usize, usize),
) -> Option<[usize; 2]> {
    let (threads, bytes) = (limits.max_threads as usize, limits.shared_bytes as usize);
    while slices > 1 && needs([slices, stages]).0 > threads {
        slices /= 2;
    }
    while stages > 2 && needs([slices, stages]).1 > bytes {
        stages -= 1;
    }
    let (needs_threads, needs_bytes) = needs([slices, stages]);
    (needs_threads <= threads && needs_bytes <= bytes).then_some([slices, stages])
}

/// Whether the second factor is read along n rather than along k. `None` if an operand cannot be read or written so many elements at
/// once, or a bias neither so nor as one number for each row.
pub(super) fn is_read_by_rows(product: &Product, vector: usize) -> Option<bool> {
    let matrices = &product.matrices;
    let along_n = |which: usize| {
        product.takes_packs(which, matrices[which].column, matrices[which].row, vector)
    };
    let fits = product.k > 0
        && product.k.is_multiple_of(vector)
        && product.n.is_multiple_of(vector)
        && product.takes_packs(A, matrices[A].column, matrices[A].row, vector)
        && along_n(DST)
        && (!product.bias || matrices[BIAS].column == 0 || along_n(BIAS))
        && (!product.residual || along_n(RESIDUAL))
        && product.batch.axes.len() == 1;
    let along_k = product.takes_packs(B, matrices[B].row, matrices[B].column, vector);
    (fits && (along_k || along_n(B))).then_some(!along_k)
}

/// The launch with so many rows and columns of groups. `None` if a launch cannot have as many.
pub(super) fn launch_of(
    product: &Product,
    key: Key,
    [rows, columns]: [usize; 2],
    threads: usize,
    params: &GemvParams,
) -> Option<Launch> {
    let (batch, _) = product.batch.axes[0];
    (columns <= MAX_GROUPS).then(|| Launch {
        key,
        groups: [rows as u32, batch.min(MAX_GROUPS) as u32, columns as u32],
        threads: threads as u32,
        slots: product.slots(),
        params: params.pack(),
    })
}

impl Tile {
    fn size(&self) -> [usize; 2] {
        [16 * self.rows * self.grid[0], 16 * self.columns * self.grid[1]]
    }

    fn threads(&self) -> usize {
        32 * self.grid[0] * self.grid[1] * self.slices
    }

    fn groups(&self, m: usize, n: usize) -> [usize; 2] {
        let [rows, columns] = self.size();
        [m.div_ceil(rows), n.div_ceil(columns)]
    }

    /// The smallest tile with which every group has its own processor; of the largest, a processor may have two.
    /// `None` for larger products.
    fn choose([m, n, k]: [usize; 3], batch: usize, limits: &Limits) -> Option<Self> {
        if m < LEAST_ROWS || m.saturating_mul(n).saturating_mul(k).saturating_mul(batch) > MAX_WORK
        {
            return None;
        }
        let processors = (limits.parallel_groups as usize / 4).max(1);
        let suits = |tile: &Tile, each: usize| {
            let [rows, columns] = tile.groups(m, n);
            rows * columns * batch <= processors * each
        };
        let last = TILES.last().filter(|tile| suits(tile, 2));
        TILES.iter().find(|tile| suits(tile, 1)).or(last)?.fitted(limits)
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
        let by_rows = m * (self.step + PAD) + self.step * (n + PAD);
        let stage = by_rows.max((m + n) * (self.step + PAD)) * size_of::<u16>();
        (self.stages * stage).max(self.slices * m * (n + PAD) * size_of::<f32>())
    }
}

/// The launch of such a product, or `None` for any other and for a device without tensor cores. `early` is as for
/// [`lower_gemv`](crate::lower_gemv).
pub(super) fn launch(product: &Product, early: bool, limits: &Limits) -> Option<Launch> {
    let Product { m, n, k, .. } = *product;
    let dtype = product.matrices[DST].dtype;
    if !limits.tensor_cores || !matches!(dtype, DType::F16 | DType::BF16) {
        return None;
    }
    if product.bias && product.matrices[BIAS].column == 0 {
        return None;
    }
    let by_rows = is_read_by_rows(product, VECTOR)?;
    let (batch, _) = product.batch.axes[0];
    let tile = Tile::choose([m, n, k], batch, limits)?;
    let params = GemvParams::of(product, early);
    let constants = [
        dtype as i32,
        params.act as i32,
        tile.rows as i32,
        tile.columns as i32,
        tile.grid[0] as i32,
        tile.grid[1] as i32,
        tile.slices as i32,
        tile.step as i32,
        tile.stages as i32,
        by_rows.into(),
        tile.is_whole(k).into(),
        product.wide.into(),
        tile.threads() as i32,
    ];
    let key = Key::new(Program::MatmulPipelined, &constants);
    launch_of(product, key, tile.groups(m, n), tile.threads(), &params)
}

#[cfg(test)]
mod tests;
