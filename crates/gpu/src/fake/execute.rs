//! The computations of a fake GPU's threads.

use std::sync::Arc;

use millstream_core::{Activation, Operand};
use millstream_kernels::{FAULT_HEADER_WORDS, INDEX_OUT_OF_RANGE, Key};

use super::memory::Allocation;
use super::queue::TimeLost;
use super::{Fake, FakeSegment};
use crate::lowering::ProductOperands;
use crate::platform::Binding;

/// A place as launches name it.
pub(super) type Place = Binding<FakeSegment>;

/// The state of a computing thread.
pub(super) struct Executor {
    pub platform: Fake,
    pub time_lost: TimeLost,
}

/// Memory that is kept alive while it is used.
struct Reach {
    allocation: Arc<Allocation>,
    offset: usize,
}

impl Reach {
    /// Reads a value at an offset in bytes; zero outside of the memory.
    fn read<T: Copy + Default>(&self, byte: usize) -> T {
        let at = self.offset + byte;
        if at + size_of::<T>() > self.allocation.bytes() {
            return T::default();
        }
        // SAFETY: the place is inside of the allocation, as was just checked. Launches that write it come before or
        // after. If they do not, the queue that ordered them is wrong, which is what tests look for.
        unsafe { self.allocation.at(at).cast::<T>().read_unaligned() }
    }

    /// Writes a value at an offset in bytes; does nothing outside of the memory.
    fn write<T: Copy>(&self, byte: usize, value: T) {
        let at = self.offset + byte;
        if at + size_of::<T>() <= self.allocation.bytes() {
            // SAFETY: as above.
            unsafe { self.allocation.at(at).cast::<T>().write_unaligned(value) };
        }
    }
}

impl Executor {
    /// The memory at a place with at least this many bytes. If it does not exist, that is a violation.
    fn reach(&self, what: &str, place: Place, bytes: usize) -> Option<Reach> {
        let state = &self.platform.0.state;
        let Some(allocation) = state.allocation(place.segment) else {
            state.violate(format!("{what}: {:?} is gone", place.segment));
            return None;
        };
        if place.offset.checked_add(bytes).is_none_or(|end| end > allocation.bytes()) {
            let (offset, size) = (place.offset, allocation.bytes());
            state.violate(format!("{what}: {bytes} bytes at {offset} of an allocation of {size}"));
            return None;
        }
        Some(Reach { allocation, offset: place.offset })
    }

    pub fn copy(&self, target: Place, source: Place, bytes: usize) {
        let reached = (self.reach("copy", target, bytes), self.reach("copy", source, bytes));
        if let (Some(target), Some(source)) = reached {
            // SAFETY: both ranges lie inside of their blocks, which are different: one of the host and one of the
            // device.
            unsafe {
                let from = source.allocation.at(source.offset);
                target.allocation.at(target.offset).copy_from_nonoverlapping(from, bytes);
            }
        }
    }

    pub fn time(&self, target: Place) {
        if let Some(target) = self.reach("time", target, 8) {
            target.write(0, self.platform.0.started.elapsed().as_nanos() as u64);
        }
    }

    pub fn zero(&self, place: Place, bytes: usize) {
        if let Some(place) = self.reach("zero", place, bytes) {
            // SAFETY: inside of the allocation.
            unsafe { place.allocation.at(place.offset).write_bytes(0, bytes) };
        }
    }

    /// So many bytes as words.
    pub fn words(&self, place: Place, bytes: usize) -> Vec<u32> {
        let Some(place) = self.reach("words", place, bytes) else { return Vec::new() };
        (0..bytes / 4).map(|index| place.read(index * 4)).collect()
    }

    pub fn product(&self, operands: &ProductOperands<Place>) {
        let reach = |operand: &Operand<Place>| {
            self.reach("product", operand.buffer, operand.layout.extent_bytes())
        };
        let optional = |operand: &Option<Operand<Place>>| operand.as_ref().map(reach);
        let (Some(dst), Some(lhs), Some(rhs)) =
            (reach(&operands.dst), reach(&operands.lhs), reach(&operands.rhs))
        else {
            return;
        };
        let added = [optional(&operands.bias).flatten(), optional(&operands.residual).flatten()];
        let added_operands = [&operands.bias, &operands.residual];
        let at = |operand: &Operand<Place>, row: usize, column: usize| {
            let (layout, strides) = (&operand.layout, operand.layout.strides());
            (layout.offset() + row * strides[0] + column * strides[1]) * size_of::<f32>()
        };
        let (m, n) = (operands.dst.layout.shape()[0], operands.dst.layout.shape()[1]);
        let k = operands.lhs.layout.shape()[1];
        for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
            let term = |i: usize| {
                let left: f32 = lhs.read(at(&operands.lhs, row, i));
                left * rhs.read::<f32>(at(&operands.rhs, i, column))
            };
            let mut sum = operands.epilogue.scale * (0..k).map(term).sum::<f32>();
            for (memory, operand) in added.iter().zip(added_operands) {
                if let (Some(memory), Some(operand)) = (memory, operand) {
                    sum += memory.read::<f32>(at(operand, row, column));
                }
            }
            let relu = operands.epilogue.activation == Activation::Relu;
            dst.write(at(&operands.dst, row, column), if relu { sum.max(0.0) } else { sum });
        }
    }

    /// Runs a kernel of the common source, if it is one of those that are implemented here.
    pub fn kernel(&self, key: &Key, places: &[Place], params: &[u64]) {
        let entry = key.entry();
        let numbers = entry.strip_prefix("ms_gather_").map(|rest| rest.split('_'));
        let Some(mut numbers) = numbers else { return };
        let mut number = || numbers.next()?.parse::<usize>().ok();
        if let (Some(unit), Some(rank), &[dst, src, indices, faults]) = (number(), number(), places)
        {
            self.gather(&Gather::new(params), [unit, rank], [dst, src, indices, faults]);
        }
    }

    fn gather(&self, params: &Gather<'_>, [unit, rank]: [usize; 2], places: [Place; 4]) {
        let reached = places.map(|place| self.reach("gather", place, 0));
        let [Some(dst), Some(src), Some(indices), Some(faults)] = reached else { return };
        for item in 0..params.count {
            let mut at = [params.word(9), params.word(10), params.word(11)];
            let mut left = item;
            for axis in 0..rank {
                let size = params.word(1 + axis).max(1);
                let here = if axis + 1 < rank { left % size } else { left };
                left /= size;
                for (operand, at) in at.iter_mut().enumerate() {
                    *at += here * params.word(12 + operand * 8 + axis);
                }
            }
            let mut inside = true;
            for part in 0..params.tuple {
                let place = at[2] + part * params.word(52);
                let index = match params.wide {
                    true => indices.read::<i64>(place * 8),
                    false => indices.read::<i32>(place * 4).into(),
                };
                let size = params.word(36 + part);
                let index = if index < 0 { index + size as i64 } else { index };
                inside &= (0..size as i64).contains(&index);
                at[1] += if inside { index as usize * params.word(44 + part) } else { 0 };
            }
            for byte in 0..unit {
                let value = if inside { src.read::<u8>(at[1] * unit + byte) } else { 0 };
                dst.write(at[0] * unit + byte, value);
            }
            if !inside {
                faults.write((FAULT_HEADER_WORDS + params.command) * 4, INDEX_OUT_OF_RANGE);
                faults.write(0, 1u32);
            }
        }
    }
}

/// The params of the kernel: a count, a shape of 8 axes, 3 offsets, 3 times 8 strides, 8 sizes, 8 steps, a step; then words
/// of 32 bits: the length of a tuple, whether indices are wide, and the Command.
struct Gather<'a> {
    words: &'a [u64],
    count: usize,
    tuple: usize,
    wide: bool,
    command: usize,
}

impl<'a> Gather<'a> {
    fn new(words: &'a [u64]) -> Self {
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        let low = |index: usize| word(index) as u32 as usize;
        let (count, tuple, command) = (word(0) as usize, low(53), low(54));
        Self { words, count, tuple, wide: word(53) >> 32 != 0, command }
    }

    fn word(&self, index: usize) -> usize {
        self.words.get(index).map_or(0, |word| *word as usize)
    }
}
