//! Dynamic quantization: the scale is computed from the data.

use millstream_core::{BoundCommand, DynamicAxes, DynamicQuantizeOperands, DynamicRange};
use millstream_core::{Operand, RawBuffer};
use smallvec::smallvec;

use super::rows::Worker;
use crate::params::params;
use crate::program::Definition;
use crate::walk::{Axes, Walk, is_wide};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `dynamic_quantize`.
    DynamicParams {
        /// The start of each row in dst and src, and the position of its scale and zero point.
        starts: Walk<4>,
        /// The elements of a row in dst and src.
        row: Walk<2>,
        /// Elements of a row.
        size: u64,
        /// Elements per part, if a row has several parts.
        chunk: u64,
        /// Parts per row.
        chunks: u32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "dynamic_quantize",
    text: include_str!("../../programs/dynamic_quantize.kernel"),
    constants: &["FROM", "TO", "KEPT", "RANK", "WIDE", "VECTOR", "MODE", "STAGE"],
    params: DynamicParams::declaration,
};

/// Bytes of the range of one part: its distances below and above 0, as two `f32`.
const REACH_BYTES: usize = 8;

/// The fewest elements for which a part is worth a group.
const LEAST_CHUNK: usize = 4096;

pub(super) fn lower(command: &BoundCommand, range: DynamicRange, limits: &Limits) -> Lowered {
    let operands = DynamicQuantizeOperands::of(command);
    let DynamicAxes { scales, mut elements } = operands.axes(range);
    let DynamicQuantizeOperands { dst, scale, zero, src } = operands;
    if scale.layout.is_empty() {
        return Lowered::default();
    }
    let placed = [dst, src, scale, zero.unwrap_or(scale)];
    // What shares a scale is a row here. Neighbors in the source's memory are neighbors in it.
    elements.sort_by_key(|(_, strides)| std::cmp::Reverse(strides[1]));
    let (starts, row) = (Axes::merge(scales.into_iter()), Axes::merge(elements.into_iter()));
    let (count, size) = (starts.elements(), row.elements());
    let worker = Worker::for_rows(size, false);
    let threads = worker.threads(count, limits);
    let (chunk, chunks) = parts(worker, count, size, limits);
    let vector = vector([dst, src], &starts, &row);
    let many = count * chunks >= 1 << 30;
    let wide = i32::from(is_wide([dst, src, scale]) || many);
    let mut lowered = Lowered::default();
    let found =
        if chunks > 1 { lowered.reserve(count * chunks * REACH_BYTES) } else { Slot::from(dst) };
    let params = DynamicParams {
        starts: starts.walk(placed.map(|operand| operand.layout.offset())),
        row: row.walk([0, 0]),
        size: size as u64,
        chunk: chunk as u64,
        chunks: chunks as u32,
    };
    let [from, to] = [src, dst].map(|operand| operand.layout.dtype() as i32);
    let launch = |stage: i32| Launch {
        key: Key::new(
            Program::DynamicQuantize,
            &[from, to, starts.rank(), row.rank(), wide, vector as i32, worker as i32, stage],
        ),
        groups: worker.groups(count * chunks, threads, limits),
        threads,
        slots: smallvec![
            Slot::from(dst),
            Slot::from(scale),
            Slot::from(zero.unwrap_or(scale)),
            Slot::from(src),
            found
        ],
        params: params.pack(),
    };
    match chunks {
        1 => lowered.launches.push(launch(0)),
        _ => lowered.launches.extend([launch(1), launch(2)]),
    }
    lowered
}

/// Elements per vector of a row. 1 if memory does not allow vectors.
fn vector(operands: [&Operand<RawBuffer>; 2], starts: &Axes<4>, row: &Axes<2>) -> usize {
    let vector = 16 / operands[1].layout.dtype().size();
    let dense = row.axes.len() == 1 && row.axes[0].1 == [1, 1];
    let aligned = operands.iter().enumerate().all(|(k, operand)| {
        let size = operand.layout.dtype().size();
        let start = operand.buffer.address + operand.layout.offset() * size;
        start.is_multiple_of(vector * size)
            && starts.axes.iter().all(|(count, at)| *count == 1 || at[k].is_multiple_of(vector))
    });
    if dense && aligned && row.elements() >= 2 * vector { vector } else { 1 }
}

/// Elements per part and the number of parts. There are several if few rows would leave the device idle.
fn parts(worker: Worker, rows: usize, size: usize, limits: &Limits) -> (usize, usize) {
    let chunks = (limits.parallel_groups as usize / rows).min(size / LEAST_CHUNK);
    if worker != Worker::Group || chunks < 2 {
        return (size, 1);
    }
    // A multiple of every vector.
    let chunk = size.div_ceil(chunks).next_multiple_of(16);
    (chunk, size.div_ceil(chunk))
}
