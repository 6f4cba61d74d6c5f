//! Matrix products with simdgroup matrices, on devices that have them.

use super::matmul::MatmulParams;
use super::matmul_split_k::is_float;
use super::product::{A, B, DST, Product};
use crate::program::Definition;
use crate::{Key, Launch, Limits, Program};

pub(crate) const PROGRAM: Definition = Definition {
    name: "matmul_matrices",
    text: include_str!("../../programs/matmul_matrices.kernel"),
    constants: &["DTYPE", "TILE_M", "TILE_N", "A_MODE", "B_MODE", "THREADS", "RANK", "WIDE"],
    params: MatmulParams::declaration,
};

/// Rows and columns of a matrix. A product that has fewer of them would waste most of it.
const SIDE: usize = 8;
/// Threads that have a tile together, for each slice of k.
const THREADS: u32 = 128;
/// Values of k that make another slice worth its sum.
const SLICE_K: usize = 128;

/// How a product is cut: the sides of a group's tile, which is a square, and the slices into which the group cuts k.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tile {
    pub side: usize,
    slices: u32,
}

impl Tile {
    /// The tile of a product; `None` if it is not one for matrices.
    ///
    /// Tiles of 64 read memory half as often as those of 32. They are taken if there are two for each core. Below that, groups
    /// of small tiles get more threads, which share k.
    pub fn choose(m: usize, n: usize, k: usize, batch: usize, limits: &Limits) -> Option<Self> {
        if !limits.matrices || limits.max_threads < THREADS || m < SIDE || n < SIDE {
            return None;
        }
        let groups =
            |side: usize| m.div_ceil(side).saturating_mul(n.div_ceil(side)).saturating_mul(batch);
        let wanted = (limits.parallel_groups as usize / 2).max(1);
        if groups(64) >= wanted {
            return Some(Self { side: 64, slices: 1 });
        }
        let most = (k / SLICE_K).min((limits.max_threads / THREADS) as usize);
        let slices = match groups(32) {
            groups if groups >= wanted || most < 2 => 1,
            groups if groups >= wanted / 2 || most < 4 => 2,
            _ => 4,
        };
        Some(Self { side: 32, slices })
    }

    /// The numbers of rows and columns of groups.
    pub fn groups(&self, m: usize, n: usize) -> [usize; 2] {
        [m.div_ceil(self.side), n.div_ceil(self.side)]
    }

    /// Threads of a group.
    pub fn threads(&self) -> u32 {
        THREADS * self.slices
    }
}

/// How an operand is read: bit 0 if neighbors in memory are neighbors along k, bit 1 if 16 bytes can be read at once. The
/// strides are those along k and across.
fn mode(product: &Product, which: usize, along: usize, across: usize) -> i32 {
    let along_k = along <= across;
    let (step, lines) = if along_k { (along, across) } else { (across, along) };
    i32::from(along_k) | i32::from(product.takes_vectors(which, step, lines)) << 1
}

/// The launch of a product with matrices. `None` if the device has none, or another kernel is better.
pub(super) fn launch(product: &Product, limits: &Limits) -> Option<Launch> {
    let &Product { m, n, k, ref matrices, wide, .. } = product;
    let [dtype, a, b] = [DST, A, B].map(|which| matrices[which].dtype);
    if !is_float(dtype) || a != dtype || b != dtype {
        return None;
    }
    let batch = product.batch.elements();
    let tile = Tile::choose(m, n, k, batch, limits)?;
    let [rows, columns] = tile.groups(m, n);
    let constants = [
        dtype as i32,
        tile.side as i32,
        tile.side as i32,
        mode(product, A, matrices[A].column, matrices[A].row),
        mode(product, B, matrices[B].row, matrices[B].column),
        tile.threads() as i32,
        if product.batch.axes.len() == 1 { 1 } else { 8 },
        wide.into(),
    ];
    Some(Launch {
        key: Key::new(Program::MatmulMatrices, &constants),
        groups: [(rows * columns) as u32, batch.min(65535) as u32, 1],
        threads: tile.threads(),
        slots: product.slots(),
        params: MatmulParams::of(product, rows).pack(),
    })
}

#[cfg(test)]
mod tests;
