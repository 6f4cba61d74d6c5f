//! Attention of many queries with simdgroup matrices, on devices that have them.

use millstream_core::{DType, Operand, RawBuffer};

use super::attention::{Attention, AttentionLaunch, takes_vectors};
use super::matmul_split_k::is_float;
use crate::program::Definition;
use crate::{Key, Launch, Limits, Program};

/// Queries of a group: 8 for each simd group.
const QUERIES: usize = 32;
/// Keys of a tile.
const KEYS: usize = 32;
const THREADS: usize = 128;
/// With fewer keys there is less to do than to start.
const LEAST_KEYS: usize = 64;
/// The largest row of a query, a key or a value: sums of values are kept in registers.
const MAX_SIZE: usize = 128;

pub(crate) const PROGRAM: Definition = Definition {
    name: "attention_matrices",
    text: include_str!("../../programs/attention_matrices.kernel"),
    constants: &[
        "DTYPE", "MASK", "LENGTHS", "LEFT", "CAPPED", "SIZE", "COLUMNS", "VECTOR", "THREADS",
        "WIDE",
    ],
    params: AttentionLaunch::declaration,
};

/// Bytes of group memory: queries, a tile of keys or values, attention weights, a factor for each query, and row numbers.
/// Lines are longer by 16 bytes. A text of an older language has bf16 as f32.
fn shared_bytes(size: usize, columns: usize, dtype: DType) -> usize {
    let element = if dtype == DType::F16 { 2 } else { 4 };
    let line = size * element + 16;
    let values = 4 * columns + 16;
    QUERIES * line + KEYS * line.max(values) + QUERIES * (4 * KEYS + 16) + 4 * QUERIES + 256
}

/// The launch with matrices. `None` if the device has none, there is too little work, or no room.
pub(super) fn launch(attention: &Attention, limits: &Limits) -> Option<Launch> {
    let &Attention { items, queries, keys, size, value_size, dtype, .. } = attention;
    let fits = (1..=MAX_SIZE).contains(&size) && value_size <= MAX_SIZE;
    let has = limits.matrices && limits.max_threads as usize >= THREADS && is_float(dtype);
    if !has || !fits || queries < QUERIES / 2 || keys < LEAST_KEYS {
        return None;
    }
    let groups = queries.div_ceil(QUERIES);
    // A group for every fifth core is enough: it does the work of many groups of the other kernel.
    if groups.saturating_mul(items) < limits.parallel_groups as usize / 20 {
        return None;
    }
    let (size, columns) = (size.next_multiple_of(32), value_size.next_multiple_of(32));
    if shared_bytes(size, columns, dtype) > limits.shared_bytes as usize {
        return None;
    }
    let whole = |operand: &Operand<RawBuffer>| takes_vectors(operand, 16 / dtype.size());
    let vector = attention.operands[1..4].iter().flatten().all(|operand| whole(operand));
    let [mask, lengths, left, capped] = attention.scores;
    let constants = [
        dtype as i32,
        mask,
        lengths,
        left,
        capped,
        size as i32,
        columns as i32,
        vector.into(),
        THREADS as i32,
        attention.wide.into(),
    ];
    let key = Key::new(Program::AttentionMatrices, &constants);
    Some(attention.launch(key, groups, 1, THREADS))
}

#[cfg(test)]
mod tests;
