//! Products with block-quantized weights.

use millstream_core::{
    BoundCommand, DType, Epilogue, Layout, MAX_RANK, MatMulBlocksOperands, Operand, RawBuffer,
};
use smallvec::smallvec;

use super::epilogue::activation_code;
use super::matmul::Tile;
use super::product::Product;
use crate::params::params;
use crate::program::Definition;
use crate::walk::{Walk, is_wide};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

/// The most rows that `gemv_blocks` takes.
const MAX_ROWS: usize = 4;

params! {
    /// The params of `matmul_blocks` and `gemv_blocks`.
    BlocksParams {
        /// Output, `a`, an unused operand, bias and residual.
        batch: Walk<5>,
        m: u64,
        n: u64,
        k: u64,
        row: [u64; 5],
        column: [u64; 5],
        /// The offset of the weights.
        weights: u64,
        /// The offset of scales or zero points, and the strides of columns and of blocks.
        scales: [u64; 3],
        zeros: [u64; 3],
        /// Blocks per column.
        blocks: u64,
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
        /// The binary logarithm of the block size.
        shift: u32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "matmul_blocks",
    text: include_str!("../../programs/matmul_blocks.kernel"),
    constants: &["DTYPE", "BITS", "ZERO", "TILE_M", "TILE_N", "SLICES", "RANK", "WIDE"],
    params: BlocksParams::declaration,
};

pub(crate) const GEMV_PROGRAM: Definition = Definition {
    name: "gemv_blocks",
    text: include_str!("../../programs/gemv_blocks.kernel"),
    constants: &["DTYPE", "BITS", "ZERO", "ROWS", "ALIGNED", "RANK", "WIDE"],
    params: BlocksParams::declaration,
};

pub(super) fn lower(
    command: &BoundCommand,
    (bits, block): (u8, u16),
    epilogue: &Epilogue,
    limits: &Limits,
) -> Lowered {
    let MatMulBlocksOperands { dst, a, weights, scales, zeros, bias, residual } =
        MatMulBlocksOperands::of(command);
    // All products of the batch share the weights.
    let (rank, mut shape) = (dst.layout.rank(), [0; MAX_RANK]);
    shape[..rank].copy_from_slice(dst.layout.shape());
    shape[rank - 2] = a.layout.shape()[rank - 1];
    let shared = Layout::strided(dst.layout.dtype(), &shape[..rank], &[0; MAX_RANK][..rank], 0);
    let shared = Operand::new(weights.buffer, shared.expect("strides of 0 fit any shape"));
    let product = Product::from_operands(dst, [a, &shared], [bias, residual], epilogue);
    let Some(product) = product else { return Lowered::default() };
    let Product { m, n, k, .. } = product;
    let matrices = &product.matrices;
    let batch = product.batch.elements();
    let place = |operand: &Operand<RawBuffer>| {
        let strides = operand.layout.strides();
        [operand.layout.offset(), strides[0], strides[1]].map(|number| number as u64)
    };
    let zero = match zeros.map(|zeros| zeros.layout.dtype()) {
        None => 0,
        Some(DType::U8) => 1,
        Some(_) => 2,
    };
    let all_rows = if product.batch.axes.len() == 1 { 1 } else { 8 };
    let wide = i32::from(product.wide || is_wide([weights, scales]));
    let dtype = dst.layout.dtype() as i32;
    let (act, first, second) = activation_code(product.activation);
    let mut params = BlocksParams {
        batch: product.batch.walk(matrices.map(|matrix| matrix.offset)),
        m: m as u64,
        n: n as u64,
        k: k as u64,
        row: matrices.map(|matrix| matrix.row as u64),
        column: matrices.map(|matrix| matrix.column as u64),
        weights: weights.layout.offset() as u64,
        scales: place(scales),
        zeros: zeros.map_or([0; 3], place),
        blocks: weights.layout.shape()[1] as u64,
        scale: product.scale,
        first,
        second,
        tiles: 0,
        act: act as u32,
        has_bias: product.bias.into(),
        has_residual: product.residual.into(),
        a_k_first: (matrices[1].column <= matrices[1].row).into(),
        shift: block.ilog2(),
    };
    let (key, columns, threads) = if m <= MAX_ROWS {
        let start = weights.buffer.address + weights.layout.offset();
        let aligned = i32::from(start.is_multiple_of(4));
        let rows = if m == 1 { 1 } else { MAX_ROWS as i32 };
        let constants = [dtype, i32::from(bits), zero, rows, aligned, all_rows, wide];
        let threads = limits.max_threads.min(128);
        (Key::new(Program::GemvBlocks, &constants), n.div_ceil(threads as usize / 32), threads)
    } else {
        let tile = Tile::choose(m, n, batch, DType::F32, limits);
        let [rows, columns] = tile.groups(m, n);
        params.tiles = rows as u32;
        let [tile_m, tile_n, slices] = [tile.m, tile.n, tile.slices].map(|size| size as i32);
        let constants = [dtype, i32::from(bits), zero, tile_m, tile_n, slices, all_rows, wide];
        (Key::new(Program::MatmulBlocks, &constants), rows * columns, tile.threads())
    };
    let slot = |operand: Option<&Operand<RawBuffer>>| Slot::from(operand.unwrap_or(dst));
    let launch = Launch {
        key,
        groups: [columns as u32, batch.min(65535) as u32, 1],
        threads,
        slots: smallvec![
            Slot::from(dst),
            Slot::from(a),
            Slot::from(weights),
            Slot::from(scales),
            slot(zeros),
            slot(bias),
            slot(residual),
        ],
        params: params.pack(),
    };
    Lowered { launches: smallvec![launch], workspace: 0 }
}
