//! Softmax along an axis whose elements lie apart, while rows are neighbors in memory.

use millstream_core::DType;
use smallvec::{SmallVec, smallvec};

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

pub(crate) const SPLIT_PROGRAM: Definition = Definition {
    name: "softmax_columns_split",
    text: include_str!("../../programs/softmax_columns_split.kernel"),
    constants: &["DTYPE", "LOG", "RANK", "WIDE", "COLUMNS", "THREADS", "FINISH"],
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
/// Elements for each processor, and elements of a row, that are worth a second launch.
const LEAST_SPLIT: usize = 1 << 12;
const LEAST_SPLIT_SIZE: usize = 1 << 12;
/// Elements of a row that a thread takes at least where groups share rows.
const LEAST_SPLIT_SHARE: usize = 16;
/// Threads of a group where groups share rows.
const SPLIT_THREADS: usize = 512;
/// The most groups that share a row: each of them reads what all have found.
const MAX_PARTS: usize = 64;

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

    /// How rows are cut that several groups share, and how many groups share one. `None` if there are enough rows for
    /// all processors, or too few elements.
    fn split(rows: usize, size: usize, limits: &Limits) -> Option<(Self, usize)> {
        let processors = (limits.parallel_groups as usize / 4).max(1);
        let simd_width = limits.simd_width as usize;
        let threads = (limits.max_threads as usize).min(SPLIT_THREADS) / simd_width * simd_width;
        let cut = Self { columns: MAX_ROWS, threads };
        let groups = rows.div_ceil(cut.columns);
        let workers = threads / cut.columns;
        let most = (size / (workers * LEAST_SPLIT_SHARE)).min(MAX_PARTS);
        let parts = (processors * THREADS_AT_ONCE / (groups * threads)).min(most);
        let suits = rows >= cut.columns
            && size >= LEAST_SPLIT_SIZE
            && rows.saturating_mul(size) >= LEAST_SPLIT * processors
            && parts > 1;
        suits.then_some((cut, parts))
    }
}

/// The launches; `None` for rows whose elements are neighbors in memory, for short ones, and for few.
pub(super) fn lower(rows: &Rows, log: bool, limits: &Limits) -> Option<Lowered> {
    let dtype = rows.src.layout.dtype();
    let count = rows.starts.elements();
    let cut = Cut::choose(count, rows.size, dtype.size(), limits);
    if rows.size < LEAST_SIZE || count < cut.columns || !rows.are_neighbors() {
        return None;
    }
    let constants = |cut: Cut| {
        let wide = is_wide([rows.dst, rows.src]);
        let threads = cut.threads as i32;
        [dtype as i32, log.into(), rows.starts.rank(), wide.into(), cut.columns as i32, threads]
    };
    if let Some((cut, parts)) = Cut::split(count, rows.size, limits) {
        let mut lowered = Lowered::default();
        // The largest exponent and a sum, in the type that is computed in.
        let state = if dtype == DType::F64 { 16 } else { 8 };
        let sums = lowered.reserve(parts * count * state);
        let groups = limits.groups_for(count, cut.columns as u32);
        for finish in [false, true] {
            let constants: SmallVec<[i32; 7]> =
                constants(cut).into_iter().chain([finish.into()]).collect();
            let key = Key::new(Program::SoftmaxColumnsSplit, &constants);
            let mut launch = rows.launch_groups(key, [groups, parts as u32, 1], cut.threads as u32);
            launch.slots.push(sums);
            lowered.launches.push(launch);
        }
        return Some(lowered);
    }
    let key = Key::new(Program::SoftmaxColumns, &constants(cut));
    let groups = limits.groups_for(count, cut.columns as u32);
    let launch = rows.launch_groups(key, [groups, 1, 1], cut.threads as u32);
    Some(Lowered { launches: smallvec![launch], workspace: 0 })
}

#[cfg(test)]
mod tests;
