//! Attention of many queries, in tiles of keys and values that all queries of a group share.

use millstream_core::DType;

use super::attention::{Attention, AttentionLaunch, VECTOR, vector};
use crate::program::Definition;
use crate::{Key, Launch, Limits, Program};

/// With fewer keys, groups have too little work for their start-up cost.
const LEAST_KEYS: usize = 128;
/// Queries of a group of 128 threads. With fewer queries, tiles are not worth it.
const LEAST_QUERIES: usize = 32;
/// The largest row of a query, a key or a value.
const MAX_SIZE: usize = 128;
/// How many threads share the keys of a tile.
const LANES_ALONG_KEYS: usize = 16;

pub(crate) const PROGRAM: Definition = Definition {
    name: "attention_tiles",
    text: include_str!("../../programs/attention_tiles.kernel"),
    constants: &[
        "DTYPE", "MASK", "LENGTHS", "LEFT", "CAPPED", "QUERIES", "KEYS", "SIZE", "COLUMNS",
        "VECTOR", "THREADS", "WIDE",
    ],
    params: AttentionLaunch::declaration,
};

/// The tile sizes of an attention.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tile {
    /// Queries per group.
    queries: usize,
    /// Keys of a tile per thread.
    keys: usize,
    /// Elements of a query and of a key, rounded up.
    size: usize,
    /// Elements of a value, rounded up.
    columns: usize,
    /// Threads per group.
    threads: usize,
}

impl Tile {
    /// The best tile; `None` if there is too little work for tiles, or no tile fits.
    fn choose(attention: &Attention, limits: &Limits) -> Option<Self> {
        let &Attention { items, queries, keys, size, value_size, dtype, .. } = attention;
        let small = queries < LEAST_QUERIES || keys < LEAST_KEYS;
        let fits = (1..=MAX_SIZE).contains(&size) && value_size <= MAX_SIZE;
        if small || !fits || dtype == DType::F64 {
            return None;
        }
        let groups = |rows: usize| queries.div_ceil(rows).saturating_mul(items);
        let wanted = limits.parallel_groups as usize;
        let (size, columns) = (size.next_multiple_of(16), value_size.next_multiple_of(32));
        // With twice as many queries per group, keys and values are read half as often. That is faster if there is
        // nearly one group per processor; `wanted` is four groups per processor.
        let large = (groups(64) >= wanted / 5)
            .then(|| Self::largest(64, 256, size, columns, limits))
            .flatten()
            .filter(|tile| tile.keys > 1);
        // A group for every fifth processor is enough: a tile does the work of many groups of the other kernel.
        let usual = || {
            (groups(LEAST_QUERIES) >= wanted / 20)
                .then(|| Self::largest(LEAST_QUERIES, 128, size, columns, limits))
                .flatten()
        };
        large.or_else(usual)
    }

    /// The tile with the most keys that fit in group memory, and in the registers into which the next keys are
    /// fetched.
    fn largest(
        queries: usize,
        threads: usize,
        size: usize,
        columns: usize,
        limits: &Limits,
    ) -> Option<Self> {
        let tile = |keys| Self { queries, keys, size, columns, threads };
        let most = (256 / size.max(columns)).clamp(1, 4);
        let fits = |tile: &Self| tile.shared_bytes() <= limits.shared_bytes as usize;
        (1..=most)
            .rev()
            .map(tile)
            .find(fits)
            .filter(|tile| tile.threads <= limits.max_threads as usize)
    }

    /// Bytes of group memory: for queries, for the tile of keys or values, and for the attention weights. Rows are
    /// padded by one vector.
    fn shared_bytes(&self) -> usize {
        let keys = LANES_ALONG_KEYS * self.keys;
        let row = self.size / 4 + 1;
        16 * (self.queries * row + keys * row.max(self.columns / 4) + self.queries * (keys / 4 + 1))
    }
}

/// The launch in tiles, if tiles are faster.
pub(super) fn launch(attention: &Attention, limits: &Limits) -> Option<Launch> {
    let tile = Tile::choose(attention, limits)?;
    let [mask, lengths, left, capped] = attention.scores;
    let constants = [
        attention.dtype as i32,
        mask,
        lengths,
        left,
        capped,
        tile.queries as i32,
        tile.keys as i32,
        tile.size as i32,
        tile.columns as i32,
        // All operands except the mask and the lengths.
        vector(&attention.operands[..4], VECTOR) as i32,
        tile.threads as i32,
        attention.wide.into(),
    ];
    let key = Key::new(Program::AttentionTiles, &constants);
    let groups = attention.queries.div_ceil(tile.queries);
    Some(attention.launch(key, groups, 1, tile.threads))
}

#[cfg(test)]
mod tests;
