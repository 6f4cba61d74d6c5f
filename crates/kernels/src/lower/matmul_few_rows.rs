//! Products of `f32` with up to 16 rows, as linear layers of a small batch.

use millstream_core::DType;

use super::gemv::GemvParams;
use super::product::{A, B, DST, Product};
use crate::program::Definition;
use crate::{Key, Launch, Limits, Program};

/// The most rows. With more, tiles in group memory are faster.
const MAX_ROWS: usize = 16;
/// Columns of a group, as in the program.
const COLUMNS: usize = 8;
/// Elements that a lane loads at once.
const VECTOR: usize = 4;
pub(crate) const PROGRAM: Definition = Definition {
    name: "matmul_few_rows",
    text: include_str!("../../programs/matmul_few_rows.kernel"),
    constants: &["ROWS", "BY_ROWS", "THREADS", "WIDE"],
    params: GemvParams::declaration,
};

/// The launch of such a product; `None` for any other. `early` is as for [`lower_gemv`](crate::lower_gemv).
pub(super) fn launch(product: &Product, early: bool, limits: &Limits) -> Option<Launch> {
    let Product { m, n, k, .. } = *product;
    let matrices = &product.matrices;
    // Measured on such devices only.
    let fits = limits.tensor_cores
        && (1..=MAX_ROWS.min(n)).contains(&m)
        && matrices[DST].dtype == DType::F32
        && k > 0
        && k.is_multiple_of(VECTOR)
        && product.takes_packs(
            A,
            matrices[A].column,
            if m == 1 { 0 } else { matrices[A].row },
            VECTOR,
        )
        && product.batch.axes.len() == 1
        && limits.max_threads as usize >= MAX_ROWS * COLUMNS;
    let along_k = product.takes_packs(B, matrices[B].row, matrices[B].column, VECTOR);
    let along_n = n.is_multiple_of(VECTOR)
        && product.takes_packs(B, matrices[B].column, matrices[B].row, VECTOR);
    if !fits || !(along_k || along_n) {
        return None;
    }
    // A single row of a matrix along k has a kernel of its own.
    if m == 1 && along_k {
        return None;
    }
    let (batch, _) = product.batch.axes[0];
    // Lanes that have the same k.
    let sharers = if along_k { 1 } else { 2 };
    let rows = m.next_power_of_two().clamp(4, 8 * sharers);
    // Sums and what is loaded at a time have to find room in the registers of a processor.
    let room = if rows * COLUMNS / sharers < 64 { 512 } else { 256 };
    let wanted = (sharers * k.div_ceil(VECTOR)).next_power_of_two();
    let threads = wanted.clamp(rows * COLUMNS, room.min(limits.max_threads as usize));
    let constants = [rows as i32, (!along_k).into(), threads as i32, product.wide.into()];
    Some(Launch {
        key: Key::new(Program::MatmulFewRows, &constants),
        groups: [n.div_ceil(COLUMNS) as u32, batch.min(65535) as u32, m.div_ceil(rows) as u32],
        threads: threads as u32,
        slots: product.slots(),
        params: GemvParams::of(product, early).pack(),
    })
}

#[cfg(test)]
mod tests;
