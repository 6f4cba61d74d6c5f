//! Attention of many queries: keys and values are taken in tiles that all queries of a group share.

use millstream_core::DType;

use super::attention::{Attention, AttentionLaunch, vector};
use crate::program::Definition;
use crate::{Key, Launch, Limits, Program};

/// Keys below which every group would have too little to do for what it costs to begin.
const LEAST_KEYS: usize = 128;
/// Queries of a group that has 128 threads, and so the fewest that are worth it.
const LEAST_QUERIES: usize = 32;
/// The largest row of a query, a key or a value.
const MAX_SIZE: usize = 128;
/// Keys of a tile for each one that a thread has.
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

/// How an attention is cut.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tile {
    /// Queries of a group.
    queries: usize,
    /// Keys of a tile that a thread has.
    keys: usize,
    /// Elements of a query and of a key, rounded up.
    size: usize,
    /// Elements of a value, rounded up.
    columns: usize,
    /// Threads of a group.
    threads: usize,
}

impl Tile {
    /// The best cut; nothing where there is too little work for tiles, or no room for any.
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
        // Keys and values are read half as often by twice as many queries. They are the better ones from nearly
        // one group per processor on; `wanted` is four.
        let large = (groups(64) >= wanted / 5)
            .then(|| Self::largest(64, 256, size, columns, limits))
            .flatten()
            .filter(|tile| tile.keys > 1);
        // A group for every fifth processor is enough: one of them does the work of many others.
        let usual = || {
            (groups(LEAST_QUERIES) >= wanted / 20)
                .then(|| Self::largest(LEAST_QUERIES, 128, size, columns, limits))
                .flatten()
        };
        large.or_else(usual)
    }

    /// The one with as many keys as there is room for, in group memory and in the registers that the next keys
    /// are fetched into.
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

    /// Group memory: queries, the tile of keys or values, and shares, of which rows have one pack more.
    fn shared_bytes(&self) -> usize {
        let keys = LANES_ALONG_KEYS * self.keys;
        let row = self.size / 4 + 1;
        16 * (self.queries * row + keys * row.max(self.columns / 4) + self.queries * (keys / 4 + 1))
    }
}

/// An attention in tiles, where that is the better way.
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
        // All but the mask and lengths.
        vector(&attention.operands[..4]) as i32,
        tile.threads as i32,
        attention.wide.into(),
    ];
    let key = Key::new(Program::AttentionTiles, &constants);
    let groups = attention.queries.div_ceil(tile.queries);
    Some(attention.launch(key, groups, 1, tile.threads))
}

#[cfg(test)]
mod tests;
