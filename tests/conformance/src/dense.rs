//! The elements of an operand, taken out of their layout.

use millstream_core::{DType, Layout};

use crate::Value;
use crate::value::read_at;

/// Elements in row-major order. The reference only ever sees these, never a stride.
#[derive(Clone, Debug)]
pub struct Dense {
    /// The type the elements have in the buffer.
    pub dtype: DType,
    /// The size of each axis.
    pub shape: Vec<usize>,
    /// The elements in row-major order.
    pub values: Vec<Value>,
}

impl Dense {
    /// Reads an operand out of the bytes of its buffer.
    ///
    /// # Panics
    ///
    /// A layout that reaches beyond the bytes.
    pub fn read(layout: &Layout, bytes: &[u8]) -> Self {
        let dtype = layout.dtype();
        let values = positions(layout).into_iter().map(|position| read_at(dtype, bytes, position));
        let values = values.collect();
        Self { dtype: layout.dtype(), shape: layout.shape().to_vec(), values }
    }

    /// The element at the given coordinates.
    ///
    /// # Panics
    ///
    /// Coordinates outside the shape.
    pub fn at(&self, place: &[usize]) -> Value {
        self.values[index(&self.shape, place)]
    }

    /// The elements repeated along axes of size 1, and along new leading axes, to have `shape`.
    ///
    /// # Panics
    ///
    /// A shape that this one does not broadcast to.
    pub fn broadcast(&self, shape: &[usize]) -> Self {
        let added = shape.len() - self.shape.len();
        let mut strides = vec![0; shape.len()];
        let mut step = 1;
        for (axis, &size) in self.shape.iter().enumerate().rev() {
            assert!(size == 1 || size == shape[added + axis], "does not broadcast");
            // An axis that is repeated does not move through the elements.
            strides[added + axis] = if size == 1 { 0 } else { step };
            step *= size;
        }
        let values = walk(shape, &strides, 0).into_iter().map(|at| self.values[at]).collect();
        Self { dtype: self.dtype, shape: shape.to_vec(), values }
    }
}

/// The row-major index of coordinates in a shape.
pub(crate) fn index(shape: &[usize], place: &[usize]) -> usize {
    assert_eq!(shape.len(), place.len(), "coordinates of another rank");
    shape.iter().zip(place).fold(0, |index, (&size, &at)| {
        assert!(at < size, "{place:?} is outside {shape:?}");
        index * size + at
    })
}

/// The coordinates of every element of a shape, in row-major order.
pub(crate) fn places(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut places = vec![Vec::new()];
    for &size in shape {
        let extend = |place: Vec<usize>| (0..size).map(move |at| [&place[..], &[at]].concat());
        places = places.into_iter().flat_map(extend).collect();
    }
    places
}

/// Where each element lies in its buffer, counted in elements, in row-major order.
pub(crate) fn positions(layout: &Layout) -> Vec<usize> {
    walk(layout.shape(), layout.strides(), layout.offset())
}

/// The place of every index of a shape, in row-major order: `offset + Σ index · stride`.
pub(crate) fn walk(shape: &[usize], strides: &[usize], offset: usize) -> Vec<usize> {
    let mut places = vec![offset];
    for (&size, &stride) in shape.iter().zip(strides) {
        let inner = |place: usize| (0..size).map(move |at| place + at * stride);
        places = places.into_iter().flat_map(inner).collect();
    }
    places
}

#[cfg(test)]
mod tests;
