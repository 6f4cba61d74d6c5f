//! Other shapes for the same elements.

use millstream_core::{Layout, MAX_RANK};
use smallvec::SmallVec;

use super::Tensor;
use crate::error::{invalid, named};
use crate::{Axis, Result, Size};

type Sizes = SmallVec<[usize; MAX_RANK]>;

impl Tensor {
    /// The same elements in another shape. One size may be -1: it is computed from the others. Copies only if no
    /// strides describe the new shape over the same memory.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::arange(0.0, 6.0, 1.0, DType::F32, &Device::cpu()?)?;
    /// assert_eq!(a.reshape(&[2, -1])?.shape(), [2, 3]);
    /// # Ok::<(), millstream::Error>(())
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

    /// Joins the axes from `first` to `last` into one.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::zeros(&[2, 3, 4], DType::F32, &Device::cpu()?)?;
    /// assert_eq!(a.flatten(1, -1)?.shape(), [2, 12]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
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

    /// Splits an axis into several, whose sizes multiply to its size. One size may be -1.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::zeros(&[2, 12], DType::F32, &Device::cpu()?)?;
    /// assert_eq!(a.unflatten(1, &[3, -1])?.shape(), [2, 3, 4]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An axis that does not exist, or sizes that do not multiply to its size.
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

/// Sizes as the caller wrote them.
#[cold]
fn asked<S: Size>(sizes: &[S]) -> Vec<isize> {
    let number = |size: usize| size.try_into().unwrap_or(isize::MAX);
    sizes.iter().map(|size| size.size().map_or(-1, number)).collect()
}

/// Sizes with -1 replaced by what is left.
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

/// A layout of `shape` over the same memory with the elements in the same order, if there is one.
fn in_place(layout: &Layout, shape: &[usize]) -> Option<Layout> {
    if shape.len() > MAX_RANK {
        // The copy then fails with an error that says so.
        return None;
    }
    if layout.is_contiguous() {
        return layout.reshape(shape).ok();
    }
    // Old axes without gaps between them count as one. The sizes of new axes must multiply to its size.
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
