//! How a kernel finds its elements: axes are merged if possible, and vectors are used if memory allows it.

use millstream_core::{MAX_RANK, Operand, RawBuffer};
use smallvec::SmallVec;

use crate::params::Field;
use crate::{Limits, Params};

/// Shape, offsets and strides of several operands of the same shape, for `Walk` of the program texts. The innermost
/// axis comes first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Walk<const OPERANDS: usize> {
    /// The number of elements, or of vectors.
    pub count: u64,
    /// The size of each axis, innermost first.
    pub shape: [u64; MAX_RANK],
    /// The offset of each operand, in elements.
    pub offset: [u64; OPERANDS],
    /// The strides of each operand, in elements, innermost first.
    pub stride: [[u64; MAX_RANK]; OPERANDS],
}

impl<const OPERANDS: usize> Field for Walk<OPERANDS> {
    fn declare(name: &str) -> String {
        format!("Walk<{OPERANDS}> {name}")
    }
    fn write(&self, params: &mut Params) {
        self.count.write(params);
        self.shape.write(params);
        self.offset.write(params);
        self.stride.write(params);
    }
}

/// Axes of several operands of the same shape. Neighboring axes are merged if all operands are dense across them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axes<const OPERANDS: usize> {
    /// Size and strides of each axis, innermost first. There is at least one axis. No size is 1, unless there is only
    /// one axis.
    pub axes: SmallVec<[(usize, [usize; OPERANDS]); MAX_RANK]>,
}

impl<const OPERANDS: usize> Axes<OPERANDS> {
    /// Merges axes without reordering them. They are given outermost first.
    pub fn merge(axes: impl DoubleEndedIterator<Item = (usize, [usize; OPERANDS])>) -> Self {
        let mut merged = SmallVec::<[(usize, [usize; OPERANDS]); MAX_RANK]>::new();
        for (size, strides) in axes.rev().filter(|axis| axis.0 != 1) {
            match merged.last_mut() {
                Some((inner, steps)) if (0..OPERANDS).all(|k| strides[k] == steps[k] * *inner) => {
                    *inner *= size;
                }
                _ => merged.push((size, strides)),
            }
        }
        if merged.is_empty() {
            merged.push((1, [1; OPERANDS]));
        }
        Self { axes: merged }
    }

    /// The axes of operands in the best order, for operations that treat all elements alike. The first operand is the
    /// output: elements that are near in its memory become neighbors.
    pub fn of(operands: [&Operand<RawBuffer>; OPERANDS]) -> Self {
        let shape = operands[0].layout.shape();
        let mut axes: SmallVec<[(usize, [usize; OPERANDS]); MAX_RANK]> = (0..shape.len())
            .map(|axis| (shape[axis], operands.map(|operand| operand.layout.strides()[axis])))
            .filter(|axis| axis.0 != 1)
            .collect();
        axes.sort_by_key(|(_, strides)| std::cmp::Reverse(strides[0]));
        Self::merge(axes.into_iter())
    }

    /// The axes of operands except one, from the largest stride of the second operand to the smallest. For operations
    /// along one axis that treat all other axes alike.
    pub fn without(operands: [&Operand<RawBuffer>; OPERANDS], left_out: usize) -> Self {
        let shape = operands[0].layout.shape();
        let mut axes: SmallVec<[(usize, [usize; OPERANDS]); MAX_RANK]> = (0..shape.len())
            .filter(|&axis| axis != left_out)
            .map(|axis| (shape[axis], operands.map(|operand| operand.layout.strides()[axis])))
            .collect();
        axes.sort_by_key(|(_, strides)| std::cmp::Reverse(strides[OPERANDS - 1]));
        Self::merge(axes.into_iter())
    }

    /// Elements per vector for dense rows of `size` elements that start at the positions of this walk. 1 if memory
    /// does not allow vectors.
    pub fn vector(&self, operands: [&Operand<RawBuffer>; OPERANDS], size: usize) -> usize {
        let vector = 16 / operands[0].layout.dtype().size();
        let aligned = operands.iter().enumerate().all(|(k, operand)| {
            let element = operand.layout.dtype().size();
            (operand.buffer.address + operand.layout.offset() * element)
                .is_multiple_of(vector * element)
                && self
                    .axes
                    .iter()
                    .all(|(count, stride)| *count == 1 || stride[k].is_multiple_of(vector))
        });
        if aligned && size >= vector { vector } else { 1 }
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.axes.iter().map(|axis| axis.0).product()
    }

    /// The rank that a kernel is compiled for. It is rounded to a few values, so that there are few kernels.
    pub fn rank(&self) -> i32 {
        match self.axes.len() {
            0..=1 => 1,
            2 => 2,
            3..=4 => 4,
            _ => MAX_RANK as i32,
        }
    }

    /// The walk that starts at these offsets.
    pub fn walk(&self, offset: [usize; OPERANDS]) -> Walk<OPERANDS> {
        let mut walk = Walk {
            count: self.elements() as u64,
            shape: [1; MAX_RANK],
            offset: offset.map(|offset| offset as u64),
            stride: [[0; MAX_RANK]; OPERANDS],
        };
        for (axis, (size, strides)) in self.axes.iter().enumerate() {
            walk.shape[axis] = *size as u64;
            for (operand, stride) in strides.iter().enumerate() {
                walk.stride[operand][axis] = *stride as u64;
            }
        }
        walk
    }
}

/// Whether positions in any of the operands, or their number, need more than 32 bits.
pub(crate) fn is_wide<'a>(operands: impl IntoIterator<Item = &'a Operand<RawBuffer>>) -> bool {
    // A step of the grid beyond the last element must not overflow either, hence the margin.
    operands.into_iter().any(|operand| {
        operand.layout.extent_bytes() / operand.layout.dtype().size() >= 1 << 30
            || operand.layout.elements() >= 1 << 30
    })
}

/// The grid of an elementwise kernel, and how it steps over its operands.
#[derive(Clone, Debug)]
pub(crate) struct Elementwise<const OPERANDS: usize> {
    /// Constant `RANK`.
    pub rank: i32,
    /// Constant `WIDE`: positions need 64 bits.
    pub wide: i32,
    /// Constant `VECTOR`: elements that a thread takes at once.
    pub vector: i32,
    /// Constant `STEPS`: bit `k` is set if operand `k` has a different element for each element of a vector. If not,
    /// one element serves the whole vector. Without vectors it is 0.
    pub steps: i32,
    /// The walk for the params.
    pub walk: Walk<OPERANDS>,
    /// Elements that are left over after the last whole vector.
    pub tail: u32,
    /// Groups to launch.
    pub groups: [u32; 3],
    /// Threads of a group.
    pub threads: u32,
}

impl<const OPERANDS: usize> Elementwise<OPERANDS> {
    /// For operands of the same shape, output first. `None` if there are no elements.
    pub fn new(operands: [&Operand<RawBuffer>; OPERANDS], limits: &Limits) -> Option<Self> {
        if operands[0].layout.is_empty() {
            return None;
        }
        let axes = Axes::of(operands);
        let mut walk = axes.walk(operands.map(|operand| operand.layout.offset()));
        let (vector, steps) = vectors(&axes, operands);
        let tail = axes.axes[0].0 % vector;
        walk.count = (axes.elements() / vector) as u64;
        if vector > 1 {
            walk.shape[0] = (axes.axes[0].0 / vector) as u64;
            for strides in &mut walk.stride {
                strides[0] *= vector as u64;
            }
        }
        let threads = limits.usual_threads();
        let groups = limits.groups_for(walk.count as usize, threads);
        Some(Self {
            rank: axes.rank(),
            wide: is_wide(operands).into(),
            vector: vector as i32,
            steps,
            walk,
            tail: tail as u32,
            groups: [groups, 1, 1],
            threads,
        })
    }
}

/// Elements per vector, which has 16 bytes of the widest operand, and which operands have vectors. 1 if addresses or
/// strides do not allow vectors.
fn vectors<const OPERANDS: usize>(
    axes: &Axes<OPERANDS>,
    operands: [&Operand<RawBuffer>; OPERANDS],
) -> (usize, i32) {
    let widest = operands.iter().map(|operand| operand.layout.dtype().size()).max().unwrap_or(1);
    let vector = 16 / widest;
    let (inner, steps) = axes.axes[0];
    // Left-over elements can only be handled at the very end.
    let whole = axes.axes.len() == 1 || inner % vector == 0;
    if !whole || inner < vector || steps[0] != 1 {
        return (1, 0);
    }
    let mut mask = 0;
    for (k, operand) in operands.iter().enumerate() {
        match steps[k] {
            0 => continue,
            1 => mask |= 1 << k,
            _ => return (1, 0),
        }
        let size = operand.layout.dtype().size();
        let start = operand.buffer.address + operand.layout.offset() * size;
        let aligned = start.is_multiple_of(vector * size)
            && axes.axes[1..].iter().all(|(_, strides)| strides[k].is_multiple_of(vector));
        if !aligned {
            return (1, 0);
        }
    }
    (vector, mask)
}

#[cfg(test)]
mod tests;
