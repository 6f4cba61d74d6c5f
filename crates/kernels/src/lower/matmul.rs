//! Matrix products in tiles, of floating point and of integers.

use millstream_core::{BoundCommand, DType, Epilogue, MatMulIntegerOperands, Rescale};
use smallvec::smallvec;

use super::epilogue::activation_code;
use super::product::{A, B, DST, Product};
use super::{gemv, matmul_matrices, matmul_split_k, matmul_tensor_cores, rescale};
use crate::params::params;
use crate::program::Definition;
use crate::walk::Walk;
use crate::{Key, Launch, Limits, Lowered, Program};

params! {
    /// The params of `matmul`.
    MatmulParams {
        batch: Walk<5>,
        m: u64,
        n: u64,
        k: u64,
        row: [u64; 5],
        column: [u64; 5],
        scale: f32,
        first: f32,
        second: f32,
        /// The number of rows of tiles.
        tiles: u32,
        act: u32,
        has_bias: u32,
        has_residual: u32,
        /// Whether k is the axis with the smaller stride.
        a_k_first: u32,
        b_k_first: u32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "matmul",
    text: include_str!("../../programs/matmul.kernel"),
    constants: &["DST", "A", "B", "TILE_M", "TILE_N", "SLICES", "RANK", "WIDE"],
    params: MatmulParams::declaration,
};

pub(super) fn lower(command: &BoundCommand, epilogue: &Epilogue, limits: &Limits) -> Lowered {
    let Some(product) = Product::of(command, epilogue) else { return Lowered::default() };
    let launch = gemv::launch(&product, false, limits)
        .or_else(|| matmul_tensor_cores::launch(&product, false, limits))
        .or_else(|| matmul_split_k::launch(&product, false, limits))
        .or_else(|| matmul_matrices::launch(&product, limits))
        .unwrap_or_else(|| launch(&product, limits));
    Lowered { launches: smallvec![launch], workspace: 0 }
}

/// The sums of integers, followed by their rescaling.
pub(super) fn lower_integer(
    command: &BoundCommand,
    rescale: Option<&Rescale>,
    limits: &Limits,
) -> Lowered {
    let operands = MatMulIntegerOperands::of(command);
    let (sides, zeros) = ([operands.a, operands.b], [operands.a_zero, operands.b_zero]);
    let mut lowered = Lowered::default();
    let (Some(rescale), [Some(a_scale), Some(b_scale)]) =
        (rescale, [operands.a_scale, operands.b_scale])
    else {
        let product = Product::of_integers(operands.dst, sides, zeros);
        lowered.launches.extend(product.map(|product| launch(&product, limits)));
        return lowered;
    };
    if operands.dst.layout.is_empty() {
        return lowered;
    }
    let (sums, place) = rescale::sums(operands.dst, &mut lowered);
    let Some(mut product) = Product::of_integers(&sums, sides, zeros) else { return lowered };
    // The output stands in for absent zero points.
    let output = product.matrices[DST].slot;
    for matrix in product.matrices.iter_mut().filter(|matrix| matrix.slot == output) {
        matrix.slot = place;
    }
    lowered.launches.push(launch(&product, limits));
    let shape = operands.dst.layout.shape();
    let extras = rescale::Extras {
        rescale,
        scales: [a_scale, b_scale].map(|scale| rescale::repeated(scale, shape)),
        bias: operands.bias,
        residual: operands.residual,
        dst_scale: operands.dst_scale,
        dst_zero: operands.dst_zero,
    };
    rescale::finish(operands.dst, (&sums, place), &extras, &mut lowered, limits);
    lowered
}

/// How a product is cut: the tile of a group, and the number of slices into which the group splits k.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tile {
    pub m: u32,
    pub n: u32,
    pub slices: u32,
}

impl Tile {
    /// The largest tile that still fills the device. Smaller tiles split k into more slices, so that all groups have
    /// the same number of threads.
    pub fn choose(m: usize, n: usize, batch: usize, dtype: DType, limits: &Limits) -> Self {
        if limits.max_threads < 256 {
            return Self { m: 32, n: 32, slices: 1 };
        }
        let groups =
            |side: usize| m.div_ceil(side).saturating_mul(n.div_ceil(side)).saturating_mul(batch);
        // Elements of 64 bits take twice the memory.
        let share = if dtype.size() == 8 { 2 } else { 1 };
        let wanted = limits.parallel_groups as usize;
        match () {
            _ if groups(64) >= wanted => Self { m: 64, n: 64, slices: 1 },
            _ if groups(32) >= wanted / 2 => Self { m: 32, n: 32, slices: 4 / share },
            _ => Self { m: 32, n: 16, slices: 8 / share },
        }
    }

    /// The numbers of rows and columns of groups.
    pub fn groups(&self, m: usize, n: usize) -> [usize; 2] {
        [m.div_ceil(self.m as usize), n.div_ceil(self.n as usize)]
    }

    /// Threads of a group.
    pub fn threads(&self) -> u32 {
        self.m * self.n / 16 * self.slices
    }
}

impl MatmulParams {
    /// The params of a product with so many rows of tiles.
    pub(super) fn of(product: &Product, tiles: usize) -> Self {
        let matrices = &product.matrices;
        let (act, first, second) = activation_code(product.activation);
        Self {
            batch: product.batch.walk(matrices.map(|matrix| matrix.offset)),
            m: product.m as u64,
            n: product.n as u64,
            k: product.k as u64,
            row: matrices.map(|matrix| matrix.row as u64),
            column: matrices.map(|matrix| matrix.column as u64),
            scale: product.scale,
            first,
            second,
            tiles: tiles as u32,
            act: act as u32,
            has_bias: product.bias.into(),
            has_residual: product.residual.into(),
            a_k_first: (matrices[A].column <= matrices[A].row).into(),
            b_k_first: (matrices[B].row <= matrices[B].column).into(),
        }
    }
}

/// The launch of a product in tiles.
pub(super) fn launch(product: &Product, limits: &Limits) -> Launch {
    let Product { m, n, .. } = *product;
    let matrices = &product.matrices;
    let batch = product.batch.elements();
    let tile = Tile::choose(m, n, batch, matrices[DST].dtype, limits);
    let [rows, columns] = tile.groups(m, n);
    let constants = [
        matrices[DST].dtype as i32,
        matrices[A].dtype as i32,
        matrices[B].dtype as i32,
        tile.m as i32,
        tile.n as i32,
        tile.slices as i32,
        if product.batch.axes.len() == 1 { 1 } else { 8 },
        product.wide.into(),
    ];
    Launch {
        key: Key::new(Program::Matmul, &constants),
        groups: [(rows * columns) as u32, batch.min(65535) as u32, 1],
        threads: tile.threads(),
        slots: product.slots(),
        params: MatmulParams::of(product, rows).pack(),
    }
}

#[cfg(test)]
mod tests;
