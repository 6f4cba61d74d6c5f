//! Softmax along an axis whose elements lie apart, while rows are neighbors in memory.

use super::rows::{RowParams, Rows};
use crate::program::Definition;
use crate::walk::is_wide;
use crate::{Key, Limits, Lowered, Program};

pub(crate) const PROGRAM: Definition = Definition {
    name: "softmax_columns",
    text: include_str!("../../programs/softmax_columns.kernel"),
    constants: &["DTYPE", "LOG", "RANK", "WIDE", "COLUMNS", "THREADS"],
    params: RowParams::declaration,
};

/// Rows that are shorter are left to single threads.
const LEAST_SIZE: usize = 17;
/// Elements of a row that a thread takes at least.
const LEAST_SHARE: usize = 4;
/// The most rows of a group: one for each lane.
const MAX_ROWS: usize = 32;
/// What a device reads at least from memory.
const SECTOR_BYTES: usize = 32;
/// Threads that a processor keeps at once.
const THREADS_AT_ONCE: usize = 2048;

/// How the rows are cut.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cut {
    /// Rows per group.
    columns: usize,
    /// Threads per group.
    threads: usize,
}

impl Cut {
    /// Wide groups read longest stretches of memory. With few rows, narrow ones leave more processors one, and each
    /// group gets as many threads as have a share of a row.
    fn choose(rows: usize, size: usize, element: usize, limits: &Limits) -> Self {
        let processors = (limits.parallel_groups as usize / 4).max(1);
        let narrow = (SECTOR_BYTES / element).min(MAX_ROWS / 2);
        let columns = if rows / MAX_ROWS >= processors { MAX_ROWS } else { narrow };
        let groups = rows.div_ceil(columns);
        let simd_width = limits.simd_width as usize;
        let mut threads = (limits.max_threads as usize).next_multiple_of(simd_width).min(1024);
        let too_many = |threads: usize| {
            threads / columns * LEAST_SHARE > size
                || groups * threads > processors * THREADS_AT_ONCE
        };
        while threads > 2 * simd_width && too_many(threads) {
            threads /= 2;
        }
        Self { columns, threads: threads / simd_width * simd_width }
    }
}

/// The launch; `None` for rows whose elements are neighbors in memory, for short ones, and for few.
pub(super) fn lower(rows: &Rows, log: bool, limits: &Limits) -> Option<Lowered> {
    let dtype = rows.src.layout.dtype();
    let count = rows.starts.elements();
    let cut = Cut::choose(count, rows.size, dtype.size(), limits);
    if rows.size < LEAST_SIZE || count < cut.columns || !rows.are_neighbors() {
        return None;
    }
    let constants = [
        dtype as i32,
        log.into(),
        rows.starts.rank(),
        is_wide([rows.dst, rows.src]).into(),
        cut.columns as i32,
        cut.threads as i32,
    ];
    let key = Key::new(Program::SoftmaxColumns, &constants);
    let groups = limits.groups_for(count, cut.columns as u32);
    Some(rows.launch_groups(key, [groups, 1, 1], cut.threads as u32))
}

#[cfg(test)]
mod tests;
