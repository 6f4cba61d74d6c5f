//! Products with few rows or few columns, as of a model at batch 1.

use millstream_core::{BoundCommand, DType, Op};
use smallvec::smallvec;

use super::epilogue::activation_code;
use super::matmul_few_rows;
use super::product::{A, B, DST, Product};
use crate::params::params;
use crate::program::Definition;
use crate::{Key, Launch, Limits, Lowered, Program};

/// The most rows that these kernels take.
const MAX_ROWS: usize = 4;

params! {
    /// The params of `gemv`, `gemv_columns` and `matmul_split_k`.
    GemvParams {
        m: u64,
        n: u64,
        k: u64,
        batch: u64,
        offset: [u64; 5],
        /// The distance from one matrix of the batch to the next.
        step: [u64; 5],
        row: [u64; 5],
        column: [u64; 5],
        scale: f32,
        first: f32,
        second: f32,
        has_bias: u32,
        has_residual: u32,
        /// Whether the kernel may read `b` before the previous kernel has ended.
        early: u32,
        /// The activation, for kernels that have no constant for it.
        act: u32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "gemv",
    text: include_str!("../../programs/gemv.kernel"),
    constants: &["DTYPE", "ACT", "ROWS", "VECTOR", "LANES", "WIDE"],
    params: GemvParams::declaration,
};

pub(crate) const COLUMNS_PROGRAM: Definition = Definition {
    name: "gemv_columns",
    text: include_str!("../../programs/gemv_columns.kernel"),
    constants: &["DTYPE", "ROWS", "COLUMNS", "WIDE"],
    params: GemvParams::declaration,
};

/// The launch of a matmul with at most 4 rows or columns in all, or of `f32` with up to 16 rows. `None` for any other Command, and for batches whose
/// matrices do not have a constant distance.
///
/// [`lower`](crate::lower()) uses it by itself. A backend with a library for products should ask here first. Such a
/// product is bound by reading the matrix once; one launch without a barrier does that at the speed of memory, and
/// applies bias, residual and activation on the way.
///
/// `early` says that the previous launch on the same stream does not write `b`. Where kernels may start before the
/// previous one has ended, this kernel then reads `b` without waiting.
pub fn lower_gemv(command: &BoundCommand, early: bool, limits: &Limits) -> Option<Lowered> {
    let Op::MatMul { epilogue } = command.op() else { return None };
    let product = Product::of(command, epilogue)?;
    Some(Lowered { launches: smallvec![launch(&product, early, limits)?], workspace: 0 })
}

/// The launch of a product with few rows or columns.
pub(super) fn launch(product: &Product, early: bool, limits: &Limits) -> Option<Launch> {
    if product.batch.axes.len() != 1 || !product.matrices[DST].dtype.is_float() {
        return None;
    }
    if let Some(launch) = matmul_few_rows::launch(product, early, limits) {
        return Some(launch);
    }
    if product.m <= MAX_ROWS && product.m <= product.n {
        return Some(rows(product, early, limits));
    }
    (product.n <= MAX_ROWS).then(|| rows(&product.clone().transposed(), false, limits))
}

impl GemvParams {
    /// The params of a product whose batch has one axis.
    pub(super) fn of(product: &Product, early: bool) -> Self {
        let matrices = &product.matrices;
        let (batch, step) = product.batch.axes[0];
        let (act, first, second) = activation_code(product.activation);
        Self {
            m: product.m as u64,
            n: product.n as u64,
            k: product.k as u64,
            batch: batch as u64,
            offset: matrices.map(|matrix| matrix.offset as u64),
            step: step.map(|step| step as u64),
            row: matrices.map(|matrix| matrix.row as u64),
            column: matrices.map(|matrix| matrix.column as u64),
            scale: product.scale,
            first,
            second,
            has_bias: product.bias.into(),
            has_residual: product.residual.into(),
            early: early.into(),
            act: act as u32,
        }
    }
}

fn rows(product: &Product, early: bool, limits: &Limits) -> Launch {
    let Product { m, n, k, .. } = *product;
    let matrices = &product.matrices;
    let dtype = matrices[DST].dtype;
    let (batch, _) = product.batch.axes[0];
    let params = GemvParams::of(product, early);
    let act = params.act as i32;
    let rows = if m == 1 { 1 } else { MAX_ROWS as i32 };
    let (dtype_code, wide) = (dtype as i32, i32::from(product.wide));
    let (key, groups, threads) = if matrices[B].row <= matrices[B].column {
        let vector = vector(product, dtype);
        // With a short sum most of 32 lanes would have no work.
        let lanes = if k.div_ceil(vector) <= 16 { 8 } else { 32 };
        let constants = [dtype_code, act, rows, vector as i32, lanes, wide];
        let threads = limits.max_threads.min(128);
        (
            Key::new(Program::Gemv, &constants),
            n.div_ceil(threads as usize / lanes as usize),
            threads,
        )
    } else {
        // As many neighbors as one memory transaction holds.
        let columns = if dtype.size() == 2 { 16 } else { 8 };
        let constants = [dtype_code, rows, columns, wide];
        (
            Key::new(Program::GemvColumns, &constants),
            n.div_ceil(columns as usize),
            limits.usual_threads(),
        )
    };
    Launch {
        key,
        groups: [groups as u32, batch.min(65535) as u32, 1],
        threads,
        slots: product.slots(),
        params: params.pack(),
    }
}

/// How many elements along k can be loaded at once from both operands.
fn vector(product: &Product, dtype: DType) -> usize {
    let vector = 16 / dtype.size();
    let (a, b) = (&product.matrices[A], &product.matrices[B]);
    let whole = product.k.is_multiple_of(vector)
        && product.takes_vectors(A, a.column, if product.m == 1 { 0 } else { a.row })
        && product.takes_vectors(B, b.row, if product.n == 1 { 0 } else { b.column });
    if whole { vector } else { 1 }
}

#[cfg(test)]
pub(super) mod tests;
