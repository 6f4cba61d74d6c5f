//! Small products with split k, such as linear layers of a few hundred rows. Both operands must be contiguous along
//! k.

use millstream_core::{BoundCommand, DType, Op};
use smallvec::smallvec;

use super::gemv::GemvParams;
use super::matmul_pipelined_f32;
use super::product::{A, B, DST, Product};
use crate::program::Definition;
use crate::{Key, Launch, Limits, Lowered, Program};

/// For products with more multiplications, a kernel that reads less often is faster.
const MAX_WORK: usize = 1 << 27;
/// Elements that are loaded at once.
pub(super) const VECTOR: usize = 4;
/// For this k and above, more simd groups share it.
const LONG_K: usize = 512;
/// Elements along k in the stage of a simd group.
const STAGE_K: usize = 16;

pub(crate) const PROGRAM: Definition = Definition {
    name: "matmul_split_k",
    text: include_str!("../../programs/matmul_split_k.kernel"),
    constants: &["DTYPE", "ROWS", "COLUMNS", "THREADS", "WIDE"],
    params: GemvParams::declaration,
};

/// The work of a group: a tile of `8 · rows` by `4 · columns` results. It has a simd group for each slice of k.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tile {
    rows: u32,
    columns: u32,
    pub slices: u32,
}

/// Tiles from the smallest to the largest. The smaller a tile, the more simd groups share its k.
const TILES: [Tile; 6] = [
    Tile { rows: 1, columns: 2, slices: 8 },
    Tile { rows: 2, columns: 2, slices: 8 },
    Tile { rows: 2, columns: 4, slices: 8 },
    Tile { rows: 4, columns: 4, slices: 8 },
    Tile { rows: 8, columns: 4, slices: 4 },
    Tile { rows: 8, columns: 8, slices: 4 },
];

impl Tile {
    /// The numbers of rows and columns of groups.
    pub fn groups(&self, m: usize, n: usize) -> [usize; 2] {
        [m.div_ceil(8 * self.rows as usize), n.div_ceil(4 * self.columns as usize)]
    }

    /// The smallest tile with which every group has its own processor: then the whole device works, and no processor
    /// has two groups. `None` for larger products.
    pub fn choose(m: usize, n: usize, k: usize, batch: usize, limits: &Limits) -> Option<Self> {
        if m.saturating_mul(n).saturating_mul(k).saturating_mul(batch) > MAX_WORK {
            return None;
        }
        let processors = (limits.parallel_groups as usize / 4).max(1);
        let groups = |tile: &Tile| {
            let [rows, columns] = tile.groups(m, n);
            rows * columns * batch
        };
        let tile = TILES.iter().find(|tile| groups(tile) <= processors)?;
        // The k of a small tile is split over twice as many simd groups if it is long.
        let more = if tile.rows * tile.columns <= 4 && k >= LONG_K { 2 } else { 1 };
        let slices = (tile.slices * more).min(limits.max_threads / limits.simd_width);
        Some(Self { slices, ..*tile })
    }

    /// The constants `ROWS`, `COLUMNS` and `THREADS` of the programs.
    pub fn constants(&self, limits: &Limits) -> [i32; 3] {
        [self.rows, self.columns, self.threads(limits)].map(|size| size as i32)
    }

    /// Threads of a group.
    pub fn threads(&self, limits: &Limits) -> u32 {
        limits.simd_width * self.slices
    }

    /// Bytes of group memory, with `more` bytes for each element of a stage along k.
    pub fn shared_bytes(&self, more: usize) -> usize {
        let (m, n) = (8 * self.rows as usize, 4 * self.columns as usize);
        let room = ((m + n) * (STAGE_K + VECTOR)).max(m * n) * size_of::<f32>();
        self.slices as usize * (room + STAGE_K * more)
    }
}

/// Whether sums of this type are kept in `f32`.
pub(super) fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

/// The launch of a small matmul of `f32`, or of one whose operands are contiguous along k; `None` for any other Command.
///
/// [`lower`](crate::lower()) uses it by itself. A backend with a library for products should ask here first for
/// `f32`: a library's tiles are made for products that fill the device many times. `early` is as for
/// [`lower_gemv`](crate::lower_gemv).
pub fn lower_split_k(command: &BoundCommand, early: bool, limits: &Limits) -> Option<Lowered> {
    let Op::MatMul { epilogue } = command.op() else { return None };
    let product = Product::of(command, epilogue)?;
    Some(Lowered { launches: smallvec![launch(&product, early, limits)?], workspace: 0 })
}

/// The launch of such a product.
pub(super) fn launch(product: &Product, early: bool, limits: &Limits) -> Option<Launch> {
    matmul_pipelined_f32::launch(product, early, limits)
        .or_else(|| own_launch(product, early, limits))
}

/// The launch of products with few rows, and on devices that do not copy ahead.
fn own_launch(product: &Product, early: bool, limits: &Limits) -> Option<Launch> {
    let Product { m, n, k, .. } = *product;
    let matrices = &product.matrices;
    let dtype = matrices[DST].dtype;
    let fits = is_float(dtype)
        && k > 0
        && k.is_multiple_of(VECTOR)
        && product.takes_packs(A, matrices[A].column, matrices[A].row, VECTOR)
        && product.takes_packs(B, matrices[B].row, matrices[B].column, VECTOR)
        && product.batch.axes.len() == 1;
    if !fits {
        return None;
    }
    let (batch, _) = product.batch.axes[0];
    let tile = Tile::choose(m, n, k, batch, limits)?;
    let [rows, columns] = tile.groups(m, n);
    let [rows_of_lane, columns_of_lane, threads] = tile.constants(limits);
    let constants = [dtype as i32, rows_of_lane, columns_of_lane, threads, product.wide.into()];
    Some(Launch {
        key: Key::new(Program::MatmulSplitK, &constants),
        groups: [rows as u32, batch.min(65535) as u32, columns as u32],
        threads: tile.threads(limits),
        slots: product.slots(),
        params: GemvParams::of(product, early).pack(),
    })
}

#[cfg(test)]
mod tests;
