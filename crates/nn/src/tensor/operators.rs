//! `+`, `-`, `*`, `/` and `-x`.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::Tensor;
use super::binary::TensorOrScalar;
use crate::Result;

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
