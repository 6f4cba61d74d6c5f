//! Views: the same elements in another order or shape, without work where the memory allows it.

use millstream_core::{DType, Layout, MAX_RANK, TensorSpec};
use smallvec::SmallVec;

use crate::{Error, Result};

/// Sizes of axes, or an order of them.
pub type Sizes = SmallVec<[usize; 4]>;

/// Another view of the same elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum View {
    /// The elements in row-major order, in another shape.
    Reshape(Sizes),
    /// The axes in another order: axis `i` is axis `order[i]` of the source.
    Permute(Sizes),
    /// Some indices of an axis.
    Slice {
        /// The axis.
        axis: usize,
        /// The first index.
        start: usize,
        /// How many there are.
        count: usize,
        /// The distance between two of them.
        step: usize,
    },
    /// Repeated along axes of size 1 and new leading axes.
    Broadcast(Sizes),
    /// The bits as another type of the same size.
    Bits(DType),
}

impl View {
    /// What the view makes of a tensor.
    ///
    /// # Errors
    ///
    /// A view that the tensor does not have.
    pub fn infer(&self, source: &TensorSpec) -> Result<TensorSpec> {
        let layout = source.layout()?;
        let viewed = match self {
            View::Reshape(shape) => {
                let viewed = Layout::contiguous(source.dtype(), shape)?;
                if viewed.elements() != layout.elements() {
                    let reason = format!("{source} has no view of shape {:?}", &shape[..]);
                    return Err(Error::Invalid { op: "reshape", reason });
                }
                viewed
            }
            _ => match self.layout(&layout)? {
                Some(viewed) => viewed,
                // As for a type that has bytes of its own.
                None => {
                    let whole = Layout::contiguous(DType::U8, source.shape())?;
                    let viewed = self.layout(&whole)?.unwrap_or(whole);
                    Layout::contiguous(source.dtype(), viewed.shape())?
                }
            },
        };
        TensorSpec::new(viewed.dtype(), viewed.shape())
    }

    /// The view of elements that lie so, or `None` if they must be copied first.
    ///
    /// # Errors
    ///
    /// A view that the tensor does not have.
    pub fn layout(&self, source: &Layout) -> Result<Option<Layout>> {
        match self {
            View::Reshape(shape) => Ok(reshape(source, shape)),
            View::Permute(order) => {
                // Types of which two share a byte are never strided.
                if source.dtype().per_byte() != 1 {
                    return Ok(source.permute(order).ok());
                }
                source.permute(order).map(Some)
            }
            View::Slice { axis, start, count, step } => {
                if source.dtype().per_byte() != 1 {
                    return Ok(source.slice(*axis, *start, *count, *step).ok());
                }
                source.slice(*axis, *start, *count, *step).map(Some)
            }
            View::Broadcast(shape) => source.broadcast_to(shape).map(Some),
            View::Bits(dtype) => {
                let same = (dtype.size(), dtype.per_byte())
                    == (source.dtype().size(), source.dtype().per_byte());
                if same {
                    return Ok(Some(source.with_dtype(*dtype)));
                }
                let reason = format!("{} has not the size of {dtype}", source.dtype());
                Err(Error::Invalid { op: "bits", reason })
            }
        }
    }
}

/// The layout of the same elements in another shape, if no element has to be moved for it.
///
/// Axes that lie as one run, each a multiple of the next, are taken together, and cut again as the shape asks.
pub(crate) fn reshape(source: &Layout, shape: &[usize]) -> Option<Layout> {
    if source.is_contiguous() {
        return source.reshape(shape).ok();
    }
    if shape.len() > MAX_RANK || source.dtype().per_byte() != 1 {
        return None;
    }
    let (sizes, steps): (Sizes, Sizes) = source
        .shape()
        .iter()
        .zip(source.strides())
        .filter(|&(&size, _)| size != 1)
        .map(|(&size, &step)| (size, step))
        .unzip();
    let mut strides: Sizes = SmallVec::from_elem(0, shape.len());
    let (mut from, mut to) = (0, 0);
    while to < shape.len() {
        if shape[to] == 1 {
            to += 1;
            continue;
        }
        // The fewest axes of both sides that have as many elements.
        let (first, begin) = (from, to);
        let (mut have, mut want) = (1usize, 1usize);
        loop {
            if have == want && have > 1 {
                break;
            }
            if have <= want {
                have = have.checked_mul(*sizes.get(from)?)?;
                from += 1;
            } else {
                want = want.checked_mul(*shape.get(to)?)?;
                to += 1;
            }
        }
        // They can be cut anew only if they lie as one run.
        let one_run = (first + 1..from)
            .all(|axis| steps[axis - 1] == steps[axis].saturating_mul(sizes[axis]));
        if !one_run {
            return None;
        }
        let mut step = steps[from - 1];
        for axis in (begin..to).rev() {
            strides[axis] = step;
            step = step.checked_mul(shape[axis])?;
        }
    }
    if from != sizes.len() {
        return None;
    }
    Layout::strided(source.dtype(), shape, &strides, source.offset()).ok()
}

#[cfg(test)]
mod tests;
