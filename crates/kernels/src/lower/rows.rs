//! Operations on rows: where rows lie, and which threads compute a row.

use millstream_core::{Operand, RawBuffer};
use smallvec::smallvec;

use crate::params::params;
use crate::walk::{Axes, Walk};
use crate::{Key, Launch, Limits, Lowered, Slot};

params! {
    /// The params of programs that compute rows of `dst` from rows of `src`.
    RowParams {
        /// The start of each row in dst and src.
        rows: Walk<2>,
        /// Elements of a row.
        size: u64,
        /// Strides along a row in dst and src.
        to: u64,
        from: u64,
    }
}

/// The rows along one axis of two operands of the same shape.
pub(super) struct Rows<'a> {
    pub dst: &'a Operand<RawBuffer>,
    pub src: &'a Operand<RawBuffer>,
    /// The start of each row.
    pub starts: Axes<2>,
    /// Elements of a row.
    pub size: usize,
    /// Strides along a row.
    pub to: usize,
    pub from: usize,
}

impl<'a> Rows<'a> {
    pub fn new(dst: &'a Operand<RawBuffer>, src: &'a Operand<RawBuffer>, axis: usize) -> Self {
        let (to, from) = (dst.layout.strides()[axis], src.layout.strides()[axis]);
        let size = src.layout.shape()[axis];
        Self { dst, src, starts: Axes::without([dst, src], axis), size, to, from }
    }

    /// Whether neighbors in memory belong to different rows.
    pub fn are_neighbors(&self) -> bool {
        self.starts.axes[0].1[1] < self.from
    }

    /// Whether neighbors in memory belong to different rows, and there are enough rows.
    pub fn are_across(&self) -> bool {
        self.are_neighbors() && self.starts.elements() >= 32
    }

    /// The launch that computes all rows.
    pub fn launch(&self, key: Key, worker: Worker, limits: &Limits) -> Lowered {
        let threads = worker.threads(self.starts.elements(), limits);
        let groups = worker.groups(self.starts.elements(), threads, limits);
        let launch = self.launch_groups(key, groups, threads);
        Lowered { launches: smallvec![launch], workspace: 0 }
    }

    /// The launch that computes all rows with these groups.
    pub fn launch_groups(&self, key: Key, groups: [u32; 3], threads: u32) -> Launch {
        let params = RowParams {
            rows: self.starts.walk([self.dst.layout.offset(), self.src.layout.offset()]),
            size: self.size as u64,
            to: self.to as u64,
            from: self.from as u64,
        };
        Launch {
            key,
            groups,
            threads,
            slots: smallvec![Slot::from(self.dst), Slot::from(self.src)],
            params: params.pack(),
        }
    }
}

/// Which threads compute a row. The number is the constant `MODE` of the program texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worker {
    /// A thread.
    Thread = 0,
    /// 32 threads that run in lockstep.
    Simd = 1,
    /// A group.
    Group = 2,
}

impl Worker {
    /// The worker for rows of that size. `across` means that neighbors in memory belong to different rows, and that
    /// there are enough rows.
    pub fn for_rows(size: usize, across: bool) -> Self {
        match size {
            0..=16 => Worker::Thread,
            _ if across => Worker::Thread,
            17..=512 => Worker::Simd,
            _ => Worker::Group,
        }
    }

    /// How many workers a group has.
    pub fn per_group(self, threads: u32) -> u32 {
        match self {
            Worker::Thread => threads,
            Worker::Simd => threads / 32,
            Worker::Group => 1,
        }
    }

    /// Threads per group for this many rows. Few rows are spread over as many processors as possible.
    pub fn threads(self, rows: usize, limits: &Limits) -> u32 {
        let mut threads = limits.usual_threads();
        let processors = limits.parallel_groups as usize / 4;
        while self == Worker::Simd
            && threads > limits.simd_width
            && rows.div_ceil(self.per_group(threads) as usize) < processors
        {
            threads /= 2;
        }
        threads
    }

    /// The number of groups for this many rows.
    pub fn groups(self, rows: usize, threads: u32, limits: &Limits) -> [u32; 3] {
        [limits.groups_for(rows, self.per_group(threads)), 1, 1]
    }
}
