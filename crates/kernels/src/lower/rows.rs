//! What operations on rows share: who makes a row.

use crate::Limits;

/// Who makes a row. The number is the constant `MODE` of the program texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worker {
    /// A thread.
    Thread = 0,
    /// 32 threads that run in step.
    Simd = 1,
    /// A group.
    Group = 2,
}

impl Worker {
    /// For rows of that size; `across` when neighbours in memory are in different rows, and there are
    /// enough rows.
    pub fn for_rows(size: usize, across: bool) -> Self {
        match size {
            0..=16 => Worker::Thread,
            _ if across => Worker::Thread,
            17..=512 => Worker::Simd,
            _ => Worker::Group,
        }
    }

    /// How many of them a group has.
    pub fn per_group(self, threads: u32) -> u32 {
        match self {
            Worker::Thread => threads,
            Worker::Simd => threads / 32,
            Worker::Group => 1,
        }
    }

    /// Groups for so many rows.
    pub fn groups(self, rows: usize, threads: u32, limits: &Limits) -> [u32; 3] {
        [limits.groups_for(rows, self.per_group(threads)), 1, 1]
    }
}
