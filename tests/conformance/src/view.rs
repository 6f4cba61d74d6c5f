//! Awkward layouts.

use millstream_core::{DType, Layout};

/// A way to lay a shape out in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Row-major from the start of the buffer.
    Dense,
    /// Row-major, some elements after the start: no vector is aligned any more.
    Shifted,
    /// Column-major.
    Transposed,
    /// Every second element along the last axis, every third along the first.
    Stepped,
    /// The axes rotated, with steps and an offset.
    Mixed,
    /// Row-major, with the first axis larger than one repeated by a stride of 0. Only for inputs.
    Repeated,
}

impl View {
    /// The views that can be written.
    pub const WRITABLE: [View; 5] =
        [View::Dense, View::Shifted, View::Transposed, View::Stepped, View::Mixed];

    /// The layout of a shape.
    ///
    /// # Panics
    ///
    /// A rank or size that no layout has.
    pub fn layout(self, dtype: DType, shape: &[usize]) -> Layout {
        let rank = shape.len();
        let mut order: Vec<usize> = (0..rank).collect();
        let mut steps = vec![1; rank];
        let mut offset = 0;
        match self {
            View::Dense | View::Repeated => {}
            View::Shifted => offset = 3,
            View::Transposed => order.reverse(),
            View::Stepped | View::Mixed => {
                offset = 1;
                if let Some(first) = steps.first_mut() {
                    *first = 3;
                }
                if let Some(last) = steps.last_mut() {
                    *last = 2;
                }
                if self == View::Mixed && rank > 0 {
                    order.rotate_left(1);
                    offset = 5;
                }
            }
        }
        let result = layout(dtype, shape, &order, &steps, offset);
        match shape.iter().position(|&size| size > 1).filter(|_| self == View::Repeated) {
            Some(axis) => {
                let mut strides = result.strides().to_vec();
                strides[axis] = 0;
                Layout::strided(dtype, shape, &strides, 0).expect("smaller than a valid layout")
            }
            None => result,
        }
    }
}

/// The layout of a shape whose axes lie in memory in `order`, outermost first, where each axis leaves
/// room for `steps - 1` elements after each of its own.
///
/// # Panics
///
/// An `order` or `steps` of another rank, or a layout that cannot be addressed.
pub fn layout(
    dtype: DType,
    shape: &[usize],
    order: &[usize],
    steps: &[usize],
    offset: usize,
) -> Layout {
    let mut strides = vec![0; shape.len()];
    let mut room = 1;
    for &axis in order.iter().rev() {
        strides[axis] = room * steps[axis];
        room = strides[axis] * shape[axis].max(1);
    }
    Layout::strided(dtype, shape, &strides, offset).expect("a valid layout")
}

#[cfg(test)]
mod tests;
