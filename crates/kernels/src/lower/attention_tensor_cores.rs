//! Attention of 16-bit numbers by tensor cores.

use millstream_core::DType;

use super::attention::{Attention, AttentionLaunch, vector};
use crate::program::Definition;
use crate::{Key, Launch, Limits, Program};

/// Queries of a simd group. With fewer, most of a matrix would have no work.
const QUERIES: usize = 16;
/// Simd groups of a group.
const SIMDS: usize = 4;
/// The largest row of a query, a key or a value.
const MAX_SIZE: usize = 128;
/// Elements that are loaded at once.
const VECTOR: usize = 8;
/// What is left unused behind each row in group memory.
const PAD: usize = 8;

pub(crate) const PROGRAM: Definition = Definition {
    name: "attention_tensor_cores",
    text: include_str!("../../programs/attention_tensor_cores.kernel"),
    constants: &[
        "DTYPE", "MASK", "LENGTHS", "LEFT", "CAPPED", "TILE", "SIZE", "COLUMNS", "VECTOR", "SPLIT",
        "THREADS", "WIDE",
    ],
    params: AttentionLaunch::declaration,
};

/// How an attention is cut.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cut {
    /// Keys of a tile.
    keys: usize,
    /// Elements of a query and of a key, rounded up.
    size: usize,
    /// Elements of a value, rounded up.
    columns: usize,
    /// Whether the simd groups of a group have the same queries and share the keys.
    split: bool,
    simds: usize,
}

impl Cut {
    /// `None` if tensor cores cannot do it, or hardly have work.
    fn choose(attention: &Attention, limits: &Limits) -> Option<Self> {
        let &Attention { items, queries, size, value_size, dtype, .. } = attention;
        let fits = (1..=MAX_SIZE).contains(&size) && value_size <= MAX_SIZE && queries >= QUERIES;
        let half = matches!(dtype, DType::F16 | DType::BF16);
        if !(limits.tensor_cores && half && fits) {
            return None;
        }
        let simds = SIMDS.min(limits.max_threads as usize / limits.simd_width as usize);
        let groups = queries.div_ceil(QUERIES * simds).saturating_mul(items);
        // With few groups the keys of 16 queries are shared by several processors' worth of threads.
        let split = simds > 1 && groups < limits.parallel_groups as usize / 4;
        let (size, columns) = (size.next_multiple_of(16), value_size.next_multiple_of(16));
        let largest = |split: bool| {
            // Keys that are fetched ahead lie in registers.
            let most = if size.max(columns) <= 64 { 64 } else { 32 } / if split { 2 } else { 1 };
            let cut = |keys| Self { keys, size, columns, split, simds };
            let fits = |cut: &Self| cut.shared_bytes() <= limits.shared_bytes as usize;
            [64, 32, 16].into_iter().filter(|&keys| keys <= most).map(cut).find(fits)
        };
        split.then(|| largest(true)).flatten().or_else(|| largest(false))
    }

    /// Bytes of group memory: tiles, later results of simd groups that are joined, and their sums.
    fn shared_bytes(&self) -> usize {
        let tile = self.keys * (self.size + self.columns + 2 * PAD) * size_of::<u16>();
        let joined = QUERIES * (self.columns + PAD) * size_of::<f32>();
        match self.split {
            true => self.simds * (tile.max(joined) + 2 * QUERIES * size_of::<f32>()),
            false => tile + 2 * size_of::<f32>(),
        }
    }
}

/// The launch by tensor cores, if they can do it.
pub(super) fn launch(attention: &Attention, limits: &Limits) -> Option<Launch> {
    let cut = Cut::choose(attention, limits)?;
    let [mask, lengths, left, capped] = attention.scores;
    let threads = cut.simds * limits.simd_width as usize;
    let constants = [
        attention.dtype as i32,
        mask,
        lengths,
        left,
        capped,
        cut.keys as i32,
        cut.size as i32,
        cut.columns as i32,
        // All operands except the mask and the lengths.
        vector(&attention.operands[..4], VECTOR) as i32,
        cut.split.into(),
        threads as i32,
        attention.wide.into(),
    ];
    let key = Key::new(Program::AttentionTensorCores, &constants);
    let queries = if cut.split { QUERIES } else { QUERIES * cut.simds };
    Some(attention.launch(key, attention.queries.div_ceil(queries), 1, threads))
}

#[cfg(test)]
mod tests;
