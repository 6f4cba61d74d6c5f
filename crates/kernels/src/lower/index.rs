//! Reading and writing by index. Both move slices, perhaps of one element, between an operand that has them one after
//! the other and an operand that has them where the indices say.

use millstream_core::{DType, Layout, MAX_RANK, Operand, RawBuffer};
use smallvec::SmallVec;

use crate::Params;
use crate::params::Field;
use crate::walk::Axes;

/// How an index or a tuple of indices becomes a position: `Tuple` of the program texts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tuple {
    /// Sizes of the indexed axes.
    size: [u64; MAX_RANK],
    /// Their strides.
    stride: [u64; MAX_RANK],
    /// The distance from one index of a tuple to the next.
    step: u64,
    /// Indices in a tuple.
    count: u32,
    /// Whether indices have 64 bits.
    wide: u32,
}

impl Tuple {
    fn new(
        indices: &Layout,
        step: usize,
        axes: impl ExactSizeIterator<Item = (usize, usize)>,
    ) -> Self {
        let mut tuple = Self {
            size: [0; MAX_RANK],
            stride: [0; MAX_RANK],
            step: step as u64,
            count: axes.len() as u32,
            wide: (indices.dtype() == DType::I64).into(),
        };
        for (at, (size, stride)) in axes.enumerate() {
            (tuple.size[at], tuple.stride[at]) = (size as u64, stride as u64);
        }
        tuple
    }
}

impl Field for Tuple {
    fn declare(name: &str) -> String {
        format!("Tuple {name}")
    }
    fn write(&self, params: &mut Params) {
        self.size.write(params);
        self.stride.write(params);
        self.step.write(params);
        self.count.write(params);
        self.wide.write(params);
    }
}

/// Sizes and strides of axes, outermost first.
pub(super) type AxisList<const OPERANDS: usize> = SmallVec<[(usize, [usize; OPERANDS]); MAX_RANK]>;

/// The positions of slices.
pub(super) struct Slices {
    /// All slices in row-major order, with strides of the operand that has them one after the other, of the indexed
    /// operand, and of the indices.
    pub all: AxisList<3>,
    /// The elements of one slice, with strides of the first two.
    pub slice: AxisList<2>,
    pub tuple: Tuple,
}

impl Slices {
    /// Whole slices along an axis, which is replaced by the axes of the indices.
    pub fn along(axis: usize, dense: &Layout, indexed: &Layout, indices: &Layout) -> Self {
        let (to, from, at) = (dense.strides(), indexed.strides(), indices.strides());
        let before = (0..axis).map(|i| (dense.shape()[i], [to[i], from[i], 0]));
        let replaced = (0..at.len()).map(|i| (dense.shape()[axis + i], [to[axis + i], 0, at[i]]));
        let behind = axis + 1..indexed.rank();
        Slices {
            all: before.chain(replaced).collect(),
            slice: behind
                .zip(axis + at.len()..)
                .map(|(i, j)| (indexed.shape()[i], [to[j], from[i]]))
                .collect(),
            tuple: Tuple::new(indices, 0, std::iter::once((indexed.shape()[axis], from[axis]))),
        }
    }

    /// Single elements, with the coordinate on the axis replaced.
    pub fn elements(axis: usize, dense: &Layout, indexed: &Layout, indices: &Layout) -> Self {
        let (to, from, at) = (dense.strides(), indexed.strides(), indices.strides());
        let place =
            |i: usize| (dense.shape()[i], [to[i], if i == axis { 0 } else { from[i] }, at[i]]);
        Slices {
            all: (0..dense.rank()).map(place).collect(),
            slice: SmallVec::new(),
            tuple: Tuple::new(indices, 0, std::iter::once((indexed.shape()[axis], from[axis]))),
        }
    }

    /// Slices by tuples. Tuples are the last axis of the indices; the first `shared` axes are shared.
    pub fn tuples(shared: usize, dense: &Layout, indexed: &Layout, indices: &Layout) -> Self {
        let (to, from, at) = (dense.strides(), indexed.strides(), indices.strides());
        let leading = at.len() - 1;
        let count = indices.shape()[leading];
        let place =
            |i: usize| (dense.shape()[i], [to[i], if i < shared { from[i] } else { 0 }, at[i]]);
        let behind = shared + count..indexed.rank();
        let coordinates = (shared..shared + count).map(|i| (indexed.shape()[i], from[i]));
        Slices {
            all: (0..leading).map(place).collect(),
            slice: behind
                .zip(leading..)
                .map(|(i, j)| (indexed.shape()[i], [to[j], from[i]]))
                .collect(),
            tuple: Tuple::new(indices, at[leading], coordinates),
        }
    }
}

/// The widest unit, in bytes and at most 16, in which neighbors of a row can be moved. The addresses and all of
/// `elements` (lengths of rows, offsets, strides) must be multiples of it.
pub(super) fn widest_unit<'a>(
    operands: impl IntoIterator<Item = &'a Operand<RawBuffer>>,
    elements: impl IntoIterator<Item = usize>,
) -> usize {
    let (mut size, mut all) = (1, 16);
    for operand in operands {
        size = operand.layout.dtype().size();
        all |= operand.buffer.address | (operand.layout.offset() * size);
    }
    elements.into_iter().for_each(|count| all |= count * size);
    // At most 16, since that bit is set.
    (1 << all.trailing_zeros()).max(size)
}

/// Axes whose innermost axis is dense in the first `moved` operands, with sizes and strides of those in units of
/// `ratio` elements.
pub(super) fn in_units<const OPERANDS: usize>(
    axes: &mut Axes<OPERANDS>,
    moved: usize,
    ratio: usize,
) {
    for (at, (size, strides)) in axes.axes.iter_mut().enumerate() {
        if at == 0 {
            *size /= ratio;
        } else {
            strides[..moved].iter_mut().for_each(|stride| *stride /= ratio);
        }
    }
}

impl Tuple {
    /// The strides of the indexed axes.
    pub fn strides(&self) -> impl Iterator<Item = usize> {
        let count = self.count as usize;
        self.stride.into_iter().take(count).map(|stride| stride as usize)
    }

    /// The same with strides in units of `ratio` elements.
    pub fn in_units(mut self, ratio: usize) -> Self {
        self.stride.iter_mut().for_each(|stride| *stride /= ratio as u64);
        self
    }
}

/// The bytes of an element, repeated to 8.
pub(super) fn repeated(element: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(element.iter().cycle()).for_each(|(to, &from)| *to = from);
    u64::from_ne_bytes(bytes)
}
