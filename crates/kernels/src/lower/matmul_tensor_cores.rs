//! Small products of 16-bit numbers by tensor cores, such as linear layers of a few hundred rows.

use millstream_core::{BoundCommand, DType, Op};
use smallvec::smallvec;

use super::gemv::GemvParams;
use super::matmul_pipelined;
use super::product::{A, B, DST, Product};
use crate::program::Definition;
use crate::{Key, Launch, Limits, Lowered, Program};

/// For products with more multiplications a library's kernels are faster, also with an activation in a kernel of its own: on an
/// H200, 128 × 1152 × 384 takes 4.8 µs by cuBLASLt and 9.9 µs here, 128 × 384 × 384 4.7 and 4.0 µs.
const MAX_WORK: usize = 1 << 25;
/// Elements that are loaded at once.
const VECTOR: usize = 8;
/// Elements along k in the stage of a simd group.
const STEP: usize = 32;
/// What is left unused behind each row of a stage, and of the sums.
const PAD: usize = 8;

pub(crate) const PROGRAM: Definition = Definition {
    name: "matmul_tensor_cores",
    text: include_str!("../../programs/matmul_tensor_cores.kernel"),
    constants: &["DTYPE", "ROWS", "COLUMNS", "THREADS", "BY_ROWS", "WIDE"],
    params: GemvParams::declaration,
};

/// The work of a group: a tile of `16 · rows` by `16 · columns` results. It has a simd group for each slice of k.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tile {
    rows: usize,
    columns: usize,
    slices: usize,
}

/// Tiles from the smallest to the largest.
const TILES: [Tile; 3] = [
    Tile { rows: 1, columns: 2, slices: 8 },
    Tile { rows: 2, columns: 2, slices: 8 },
    Tile { rows: 2, columns: 4, slices: 4 },
];

impl Tile {
    fn groups(&self, m: usize, n: usize) -> [usize; 2] {
        [m.div_ceil(16 * self.rows), n.div_ceil(16 * self.columns)]
    }

    /// The smallest tile with which every group has its own processor; of the largest, a processor may have two.
    /// `None` for larger products.
    fn choose([m, n, k]: [usize; 3], batch: usize, limits: &Limits) -> Option<Self> {
        if m.saturating_mul(n).saturating_mul(k).saturating_mul(batch) > MAX_WORK {
            return None;
        }
        let processors = (limits.parallel_groups as usize / 4).max(1);
        let fits = |tile: &Tile, each: usize| {
            let [rows, columns] = tile.groups(m, n);
            rows * columns * batch <= processors * each
        };
        let last = TILES.last().filter(|tile| fits(tile, 2));
        let tile = TILES.iter().find(|tile| fits(tile, 1)).or(last)?;
        let most = k.div_ceil(STEP).next_power_of_two().min(limits.max_threads as usize / 32);
        // A thread stores whole columns.
        let least = tile.columns.div_ceil(2);
        let mut tile = Self { slices: tile.slices.min(most).max(least), ..*tile };
        while tile.slices > least && tile.shared_bytes() > limits.shared_bytes as usize {
            tile.slices /= 2;
        }
        let threads = tile.slices * limits.simd_width as usize;
        let fits = threads <= limits.max_threads as usize
            && tile.shared_bytes() <= limits.shared_bytes as usize;
        fits.then_some(tile)
    }

    /// Bytes of group memory: the stages of all simd groups, later their sums.
    fn shared_bytes(&self) -> usize {
        let (m, n) = (16 * self.rows, 16 * self.columns);
        let by_rows = m * (STEP + PAD) + STEP * (n + PAD);
        let stage = by_rows.max((m + n) * (STEP + PAD)) * size_of::<u16>();
        self.slices * stage.max(m * (n + PAD) * size_of::<f32>())
    }
}

/// The launch of a small 16-bit matmul by tensor cores, or `None` for any other Command and for a device that has no
/// such units.
///
/// [`lower`](crate::lower()) uses it by itself. A backend with a library for products should ask here first: a
/// library's tiles are made for products that fill the device many times, and it leaves most activations to another
/// kernel. `early` is as for [`lower_gemv`](crate::lower_gemv).
pub fn lower_tensor_cores(command: &BoundCommand, early: bool, limits: &Limits) -> Option<Lowered> {
    let Op::MatMul { epilogue } = command.op() else { return None };
    let product = Product::of(command, epilogue)?;
    Some(Lowered { launches: smallvec![launch(&product, early, limits)?], workspace: 0 })
}

/// The launch of such a product.
pub(super) fn launch(product: &Product, early: bool, limits: &Limits) -> Option<Launch> {
    matmul_pipelined::launch(product, early, limits).or_else(|| own_launch(product, early, limits))
}

/// The launch of products with few rows, and of those with results that are not stored 16 bytes at once.
fn own_launch(product: &Product, early: bool, limits: &Limits) -> Option<Launch> {
    let Product { m, n, k, .. } = *product;
    let matrices = &product.matrices;
    let dtype = matrices[DST].dtype;
    let fits = limits.tensor_cores
        && matches!(dtype, DType::F16 | DType::BF16)
        && k > 0
        && k.is_multiple_of(VECTOR)
        && product.takes_packs(A, matrices[A].column, matrices[A].row, VECTOR)
        && product.batch.axes.len() == 1;
    if !fits {
        return None;
    }
    let along_k = product.takes_packs(B, matrices[B].row, matrices[B].column, VECTOR);
    let along_n = n.is_multiple_of(VECTOR)
        && product.takes_packs(B, matrices[B].column, matrices[B].row, VECTOR);
    if !along_k && !along_n {
        return None;
    }
    let (batch, _) = product.batch.axes[0];
    let tile = Tile::choose([m, n, k], batch, limits)?;
    let [rows, columns] = tile.groups(m, n);
    let threads = 32 * tile.slices;
    let constants = [
        dtype as i32,
        tile.rows as i32,
        tile.columns as i32,
        threads as i32,
        (!along_k).into(),
        product.wide.into(),
    ];
    Some(Launch {
        key: Key::new(Program::MatmulTensorCores, &constants),
        groups: [rows as u32, batch.min(65535) as u32, columns as u32],
        threads: threads as u32,
        slots: product.slots(),
        params: GemvParams::of(product, early).pack(),
    })
}

#[cfg(test)]
mod tests;
