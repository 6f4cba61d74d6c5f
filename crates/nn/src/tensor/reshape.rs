//! Other shapes for the same elements.

use millstream_core::{Layout, MAX_RANK};
use smallvec::SmallVec;

use super::Tensor;
use crate::error::{invalid, named};
use crate::{Axis, Result, Size};

type Sizes = SmallVec<[usize; MAX_RANK]>;

impl Tensor {
    /// The same elements in another shape; one size may be -1 and is what is left. Copies only where the
    /// elements lie in an order that the new shape cannot describe.
    ///
    /// ```
    /// # use millstream_nn::doctest as millstream;
    /// # use millstream_cpu as _;
    /// use millstream::{DType, Device, Tensor};
    ///
    /// # fn main() -> millstream::Result<()> {
    /// let a = Tensor::arange(0.0, 6.0, 1.0, DType::F32, &Device::cpu()?)?;
    /// assert_eq!(a.reshape(&[2, -1])?.shape(), [2, 3]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Another number of elements, or no memory for a copy.
    #[doc(alias = "view")]
    pub fn reshape<S: Size>(&self, shape: &[S]) -> Result<Self> {
        let shape = self.full_shape(shape)?;
        match in_place(&self.layout, &shape) {
            Some(layout) => Ok(self.viewed(layout)),
            None => {
                let dense = self.copied("reshape", self.dtype())?;
                let layout = dense.layout.reshape(&shape);
                Ok(dense.viewed(layout.map_err(|error| named("reshape", error))?))
            }
        }
    }

    /// Joins the axes from `first` to `last`.
    ///
    /// # Errors
    ///
    /// Axes that do not exist or are in the wrong order, or no memory for a copy.
    pub fn flatten(&self, first: impl Axis, last: impl Axis) -> Result<Self> {
        if self.rank() == 0 {
            return self.reshape(&[1usize]);
        }
        let first = first.resolve("flatten", self.rank())?;
        let last = last.resolve("flatten", self.rank())?;
        if first > last {
            return invalid("flatten", format!("axis {first} comes behind axis {last}"));
        }
        let mut shape = Sizes::from_slice(&self.shape()[..first]);
        shape.push(self.shape()[first..=last].iter().product());
        shape.extend_from_slice(&self.shape()[last + 1..]);
        self.reshape(&shape)
    }

    /// Splits an axis in several; their sizes give its own.
    ///
    /// # Errors
    ///
    /// An axis that does not exist, or sizes that do not give its size.
    pub fn unflatten<S: Size>(&self, axis: impl Axis, sizes: &[S]) -> Result<Self> {
        let axis = axis.resolve("unflatten", self.rank())?;
        let size = self.shape()[axis];
        let fits = |sizes: &Sizes| sizes.iter().product::<usize>() == size;
        let Some(sizes) = resolve(sizes, size).filter(fits) else {
            let (shape, asked) = (self.shape(), asked(sizes));
            let there = format!("axis {axis} of shape {shape:?} has size {size}");
            return invalid("unflatten", format!("{there}, which is not split in {asked:?}"));
        };
        let mut shape = Sizes::from_slice(&self.shape()[..axis]);
        shape.extend_from_slice(&sizes);
        shape.extend_from_slice(&self.shape()[axis + 1..]);
        self.reshape(&shape)
    }

    fn full_shape<S: Size>(&self, sizes: &[S]) -> Result<Sizes> {
        let fits = |shape: &Sizes| {
            let product = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
            product == Some(self.elements())
        };
        match resolve(sizes, self.elements()).filter(fits) {
            Some(shape) => Ok(shape),
            None => {
                let (shape, elements, asked) = (self.shape(), self.elements(), asked(sizes));
                let there = format!("shape {shape:?} has {elements} elements");
                invalid("reshape", format!("{there}, which do not make up {asked:?}"))
            }
        }
    }
}

/// Sizes as they were asked for.
#[cold]
fn asked<S: Size>(sizes: &[S]) -> Vec<isize> {
    let number = |size: usize| size.try_into().unwrap_or(isize::MAX);
    sizes.iter().map(|size| size.size().map_or(-1, number)).collect()
}

/// Sizes with the one that is left out filled in.
fn resolve<S: Size>(sizes: &[S], elements: usize) -> Option<Sizes> {
    let known = sizes.iter().filter_map(|size| size.size());
    let product = known.clone().try_fold(1usize, |product, size| product.checked_mul(size))?;
    match sizes.len() - known.count() {
        0 => sizes.iter().map(|size| size.size()).collect(),
        1 if product > 0 && elements.is_multiple_of(product) => {
            Some(sizes.iter().map(|size| size.size().unwrap_or(elements / product)).collect())
        }
        _ => None,
    }
}

/// A layout of `shape` over the elements where they lie, in the same order; `None` where there is none.
fn in_place(layout: &Layout, shape: &[usize]) -> Option<Layout> {
    if shape.len() > MAX_RANK {
        // The copy finds the words for it.
        return None;
    }
    if layout.is_contiguous() {
        return layout.reshape(shape).ok();
    }
    // Old axes that lie densely within each other count as one, whose size new axes must make up.
    let mut strides = Sizes::from_elem(0, shape.len());
    let mut old = (0..layout.rank()).rev().filter(|&axis| layout.shape()[axis] != 1).peekable();
    let mut new = (0..shape.len()).rev().filter(|&axis| shape[axis] != 1).peekable();
    while let Some(axis) = old.next() {
        let (first, mut total) = (layout.strides()[axis], layout.shape()[axis]);
        while let Some(outer) =
            old.next_if(|&axis| Some(layout.strides()[axis]) == first.checked_mul(total))
        {
            total = total.checked_mul(layout.shape()[outer])?;
        }
        let mut covered = 1;
        while covered < total {
            let axis = new.next()?;
            strides[axis] = first.checked_mul(covered)?;
            covered = covered.checked_mul(shape[axis])?;
        }
        if covered != total {
            return None;
        }
    }
    Layout::strided(layout.dtype(), shape, &strides, layout.offset()).ok()
}
