//! Reductions.

use millstream_core::{Axes as AxisSet, BoundCommand, Operand, RawBuffer, ReduceOp};
use smallvec::smallvec;

use super::rows::Worker;
use crate::params::params;
use crate::program::Definition;
use crate::walk::{Axes, Walk, is_wide};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `reduce`.
    ReduceParams {
        /// Outputs, and the start of their elements in the input.
        kept: Walk<2>,
        /// The elements of one output.
        reduced: Walk<1>,
        /// Elements per part, if an output has several parts.
        chunk: u64,
        /// Parts per output.
        chunks: u32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "reduce",
    text: include_str!("../../programs/reduce.kernel"),
    constants: &["OP", "DTYPE", "TO", "KEPT", "RANK", "WIDE", "VECTOR", "MODE", "STAGE"],
    params: ReduceParams::declaration,
};

/// The state of one part fits in this, for every reduction.
const STATE_BYTES: usize = 16;

/// The axes in two halves: those of outputs, with strides of dst and src, and those that are combined.
fn split(dst: &Operand<RawBuffer>, src: &Operand<RawBuffer>, axes: AxisSet) -> (Axes<2>, Axes<1>) {
    let (shape, strides) = (src.layout.shape(), src.layout.strides());
    let by_stride = |axis: &usize| std::cmp::Reverse(strides[*axis]);
    let mut order: smallvec::SmallVec<[usize; 8]> = (0..shape.len()).collect();
    // Neighbors in memory become neighbors. The order of summation still depends on the layout alone.
    order.sort_by_key(by_stride);
    let kept = order.iter().filter(|&&axis| !axes.contains(axis));
    let reduced = order.iter().filter(|&&axis| axes.contains(axis));
    (
        Axes::merge(kept.map(|&axis| (shape[axis], [dst.layout.strides()[axis], strides[axis]]))),
        Axes::merge(reduced.map(|&axis| (shape[axis], [strides[axis]]))),
    )
}

/// Elements per vector along the axes that are combined. 1 if memory does not allow vectors.
fn vector(src: &Operand<RawBuffer>, kept: &Axes<2>, reduced: &Axes<1>) -> usize {
    let size = src.layout.dtype().size();
    let vector = 16 / size;
    let start = src.buffer.address + src.layout.offset() * size;
    let dense = reduced.axes.len() == 1 && reduced.axes[0].1[0] == 1;
    let aligned = start.is_multiple_of(16)
        && kept.axes.iter().all(|(count, stride)| *count == 1 || stride[1].is_multiple_of(vector));
    if dense && aligned && reduced.elements() >= 2 * vector { vector } else { 1 }
}

pub(super) fn lower(
    command: &BoundCommand,
    op: ReduceOp,
    axes: AxisSet,
    limits: &Limits,
) -> Lowered {
    let (dst, src) = (&command.outputs()[0], &command.inputs()[0]);
    if dst.layout.is_empty() {
        return Lowered::default();
    }
    let (kept, reduced) = split(dst, src, axes);
    let (outputs, count) = (kept.elements(), reduced.elements());
    let threads = limits.usual_threads();
    // If outputs are neighbors in memory, but the elements of an output are not, each thread takes an output.
    let across = kept.axes[0].1[1] < reduced.axes[0].1[0] && outputs >= 32;
    let worker = Worker::for_rows(count, across);
    let (chunk, chunks) = parts(worker, outputs, count, threads, limits);
    let vector = if worker == Worker::Thread { 1 } else { vector(src, &kept, &reduced) };
    let wide = i32::from(is_wide([dst, src]) || outputs * chunks >= 1 << 30);
    let key = |worker: Worker, stage: i32| {
        Key::new(
            Program::Reduce,
            &[
                op as i32,
                src.layout.dtype() as i32,
                dst.layout.dtype() as i32,
                kept.rank(),
                reduced.rank(),
                wide,
                vector as i32,
                worker as i32,
                stage,
            ],
        )
    };
    let mut lowered = Lowered::default();
    // A single stage has no parts, but the kernel still takes an argument for them.
    let scratch =
        if chunks > 1 { lowered.reserve(outputs * chunks * STATE_BYTES) } else { Slot::from(dst) };
    let params = ReduceParams {
        kept: kept.walk([dst.layout.offset(), src.layout.offset()]),
        reduced: reduced.walk([0]),
        chunk: chunk as u64,
        chunks: chunks as u32,
    };
    let launch = |worker: Worker, stage: i32, items: usize| Launch {
        key: key(worker, stage),
        groups: worker.groups(items, threads, limits),
        threads,
        slots: smallvec![Slot::from(dst), Slot::from(src), scratch],
        params: params.pack(),
    };
    if chunks == 1 {
        lowered.launches.push(launch(worker, 0, outputs));
    } else {
        lowered.launches.push(launch(worker, 1, outputs * chunks));
        let last = if chunks > 16 { Worker::Simd } else { Worker::Thread };
        lowered.launches.push(launch(last, 2, outputs));
    }
    lowered
}

/// Elements per part and the number of parts. There are several if few outputs would leave the device idle.
fn parts(
    worker: Worker,
    outputs: usize,
    count: usize,
    threads: u32,
    limits: &Limits,
) -> (usize, usize) {
    let workers = limits.parallel_groups as usize * worker.per_group(threads) as usize;
    let least = match worker {
        Worker::Thread => 32,
        Worker::Simd => return (count, 1),
        Worker::Group => 2048,
    };
    let chunks = (workers / outputs).min(count / least);
    if chunks < 2 {
        return (count, 1);
    }
    // A multiple of every vector.
    let chunk = count.div_ceil(chunks).next_multiple_of(16);
    (chunk, count.div_ceil(chunk))
}

#[cfg(test)]
mod tests;
