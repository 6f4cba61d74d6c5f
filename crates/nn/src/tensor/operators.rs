//! `+`, `-`, `*`, `/` and `-x`.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::Tensor;
use super::binary::TensorOrScalar;
use crate::Result;

/// A number on the left of an operator. One type of each kind, so that literals need no suffix.
macro_rules! left_numbers {
    ($operator:ident $method:ident $($number:ty)*) => {
        $(
            impl $operator<&Tensor> for $number {
                type Output = Result<Tensor>;

                fn $method(self, tensor: &Tensor) -> Result<Tensor> {
                    self.as_tensor(stringify!($method), tensor)?.$method(tensor)
                }
            }

            impl $operator<Tensor> for $number {
                type Output = Result<Tensor>;

                fn $method(self, tensor: Tensor) -> Result<Tensor> {
                    self.$method(&tensor)
                }
            }
        )*
    };
}

macro_rules! operators {
    ($($operator:ident $method:ident),*) => {
        $(
            impl<T: TensorOrScalar> $operator<T> for &Tensor {
                type Output = Result<Tensor>;

                fn $method(self, other: T) -> Result<Tensor> {
                    Tensor::$method(self, other)
                }
            }

            impl<T: TensorOrScalar> $operator<T> for Tensor {
                type Output = Result<Tensor>;

                fn $method(self, other: T) -> Result<Tensor> {
                    Tensor::$method(&self, other)
                }
            }

            left_numbers!($operator $method f64 i64);
        )*
    };
}

operators!(Add add, Sub sub, Mul mul, Div div);

impl Neg for &Tensor {
    type Output = Result<Tensor>;

    fn neg(self) -> Result<Tensor> {
        Tensor::neg(self)
    }
}

impl Neg for Tensor {
    type Output = Result<Tensor>;

    fn neg(self) -> Result<Tensor> {
        Tensor::neg(&self)
    }
}
