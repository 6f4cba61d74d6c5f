//! Tensors from and to nested lists of Rust.

use half::{bf16, f16};
use millstream_core::{Device, MAX_RANK};
use smallvec::SmallVec;

use super::Tensor;
use crate::error::invalid;
use crate::{Result, Value};

type Sizes = SmallVec<[usize; MAX_RANK]>;

/// Numbers in lists, however deep: `1.0f32`, `[1, 2, 3]`, `[[1, 2], [3, 4]]`, a `Vec` of rows.
pub trait Nested {
    /// The numbers.
    type Item: Value;

    /// Appends the sizes of this level and those below, taken from the first item of each.
    #[doc(hidden)]
    fn sizes(&self, sizes: &mut Sizes);

    /// Appends the numbers. False if some level has another size.
    #[doc(hidden)]
    fn gather(&self, sizes: &[usize], into: &mut Vec<Self::Item>) -> bool;
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(
            impl Nested for $number {
                type Item = Self;

                fn sizes(&self, _: &mut Sizes) {}

                fn gather(&self, _: &[usize], into: &mut Vec<Self>) -> bool {
                    into.push(*self);
                    true
                }
            }
        )*
    };
}

numbers!(f32, f16, bf16, f64, i8, i16, i32, i64, u8, u16, u32, u64, bool);

impl<L: Nested> Nested for [L] {
    type Item = L::Item;

    fn sizes(&self, sizes: &mut Sizes) {
        sizes.push(self.len());
        if let Some(first) = self.first() {
            first.sizes(sizes);
        }
    }

    fn gather(&self, sizes: &[usize], into: &mut Vec<L::Item>) -> bool {
        match sizes.split_first() {
            Some((&size, inner)) if size == self.len() => {
                self.iter().all(|item| item.gather(inner, into))
            }
            _ => false,
        }
    }
}

macro_rules! lists {
    ($([$($generic:tt)*] $list:ty),*) => {
        $(
            impl<$($generic)*> Nested for $list {
                type Item = L::Item;

                fn sizes(&self, sizes: &mut Sizes) {
                    self[..].sizes(sizes);
                }

                fn gather(&self, sizes: &[usize], into: &mut Vec<L::Item>) -> bool {
                    self[..].gather(sizes, into)
                }
            }
        )*
    };
}

lists!([L: Nested, const N: usize] [L; N], [L: Nested] Vec<L>);

impl<L: Nested + ?Sized> Nested for &L {
    type Item = L::Item;

    fn sizes(&self, sizes: &mut Sizes) {
        (**self).sizes(sizes);
    }

    fn gather(&self, sizes: &[usize], into: &mut Vec<L::Item>) -> bool {
        (**self).gather(sizes, into)
    }
}

impl Tensor {
    /// From numbers in nested lists, whose lengths give the shape.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    /// let device = Device::cpu()?;
    /// let square = Tensor::new(&[[1.0f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(square.shape(), [2, 2]);
    /// assert_eq!(square.t()?.to_vec2::<f32>()?, [[1.0, 3.0], [2.0, 4.0]]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Lists of different lengths side by side, or no memory.
    #[doc(alias = "tensor")]
    pub fn new(values: &(impl Nested + ?Sized), device: &Device) -> Result<Self> {
        let mut sizes = Sizes::new();
        values.sizes(&mut sizes);
        let mut elements = Vec::new();
        if !values.gather(&sizes, &mut elements) {
            let reason = format!("lists of different lengths: the first ones have shape {sizes:?}");
            return invalid("new", reason);
        }
        Self::from_slice(&elements, &sizes, device)
    }

    /// The elements of a tensor with two axes, as a list of rows.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::arange(0.0, 4.0, 1.0, DType::F32, &Device::cpu()?)?.reshape(&[2, 2])?;
    /// assert_eq!(a.to_vec2::<f32>()?, [[0.0, 1.0], [2.0, 3.0]]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Blocks when
    ///
    /// The elements are not computed yet.
    ///
    /// # Errors
    ///
    /// Another number of axes, or as for [`to_vec`](Self::to_vec).
    pub fn to_vec2<T: Value>(&self) -> Result<Vec<Vec<T>>> {
        let &[rows, columns] = self.shape() else {
            return invalid("to_vec2", format!("shape {:?}, need 2 axes", self.shape()));
        };
        let elements = self.to_vec::<T>()?;
        Ok((0..rows).map(|row| elements[row * columns..][..columns].to_vec()).collect())
    }

    /// The elements of a tensor with three axes, as nested lists.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::arange(0.0, 4.0, 1.0, DType::F32, &Device::cpu()?)?.reshape(&[1, 2, 2])?;
    /// assert_eq!(a.to_vec3::<f32>()?, [[[0.0, 1.0], [2.0, 3.0]]]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Blocks when
    ///
    /// The elements are not computed yet.
    ///
    /// # Errors
    ///
    /// Another number of axes, or as for [`to_vec`](Self::to_vec).
    pub fn to_vec3<T: Value>(&self) -> Result<Vec<Vec<Vec<T>>>> {
        let &[planes, rows, columns] = self.shape() else {
            return invalid("to_vec3", format!("shape {:?}, need 3 axes", self.shape()));
        };
        let elements = self.to_vec::<T>()?;
        let row = |index: usize| elements[index * columns..][..columns].to_vec();
        let plane = |index: usize| (index * rows..(index + 1) * rows).map(row).collect();
        Ok((0..planes).map(plane).collect())
    }
}
