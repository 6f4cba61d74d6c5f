//! Functions of two tensors, or of a tensor and a number.

use millstream_core::{BinaryOp, DType, Op, Scalar};

use super::{OpRecorder, Tensor};
use crate::Result;
use crate::error::invalid;

/// A tensor or a number, as the second argument of an operation. A number is converted to the tensor's type.
pub trait TensorOrScalar {
    /// A tensor with the type and device of `like`.
    #[doc(hidden)]
    fn as_tensor(&self, op: &'static str, like: &Tensor) -> Result<Tensor>;
}

impl TensorOrScalar for Tensor {
    fn as_tensor(&self, _: &'static str, _: &Tensor) -> Result<Tensor> {
        Ok(self.clone())
    }
}

impl<T: TensorOrScalar + ?Sized> TensorOrScalar for &T {
    fn as_tensor(&self, op: &'static str, like: &Tensor) -> Result<Tensor> {
        (**self).as_tensor(op, like)
    }
}

macro_rules! scalars {
    ($($number:ty),*) => {
        $(
            impl TensorOrScalar for $number {
                fn as_tensor(&self, op: &'static str, like: &Tensor) -> Result<Tensor> {
                    number(op, Scalar::from(*self), like)
                }
            }
        )*
    };
}

scalars!(f32, f64, i32, i64, u32, u64, bool);

fn number(op: &'static str, value: Scalar, like: &Tensor) -> Result<Tensor> {
    let dtype = like.dtype();
    let fits = match value {
        Scalar::Float(number) => dtype.is_float() || number.fract() == 0.0,
        Scalar::Int(_) | Scalar::UInt(_) => dtype.is_number(),
        Scalar::Bool(_) => dtype == DType::Bool,
    };
    if !fits {
        return invalid(
            op,
            format!("{value} is not of type {dtype}: convert the tensor with to_dtype first"),
        );
    }
    Tensor::full(&[], value, dtype, &like.device())
}

impl Tensor {
    /// Applies a function to pairs of elements; shapes broadcast.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::command::BinaryOp;
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[1.0f32, 5.0], &Device::cpu()?)?;
    /// assert_eq!(a.binary(BinaryOp::Max, 3.0)?.to_vec::<f32>()?, [3.0, 5.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Shapes that do not broadcast, types that differ or that the function is not defined for, or no memory.
    pub fn binary(&self, op: BinaryOp, other: impl TensorOrScalar) -> Result<Self> {
        let name = name(op);
        let other = other.as_tensor(name, self)?;
        if self.dtype() != other.dtype() {
            let (left, right) = (self.dtype(), other.dtype());
            return invalid(name, format!("types {left} and {right}: convert one with to_dtype"));
        }
        OpRecorder::new(name, &self.device())?.apply(Op::Binary { op }, &[self, &other])
    }

    /// Elements of `yes` where this tensor of `bool` is true, else of `no`; shapes broadcast.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[-1.0f32, 2.0], &Device::cpu()?)?;
    /// assert_eq!(a.gt(0.0f32)?.where_cond(&a, 0.0f32)?.to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Shapes that do not broadcast, types that do not fit, or no memory.
    #[doc(alias = "where")]
    #[doc(alias = "select")]
    pub fn where_cond(&self, yes: &Tensor, no: impl TensorOrScalar) -> Result<Self> {
        let name = "where_cond";
        let no = no.as_tensor(name, yes)?;
        OpRecorder::new(name, &self.device())?.apply(Op::Where, &[self, yes, &no])
    }

    /// Limits each element to the range from `min` to `max`; `None` is no limit.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[-2.0f32, 0.5, 3.0], &Device::cpu()?)?;
    /// assert_eq!(a.clamp(Some(0.0), Some(1.0))?.to_vec::<f32>()?, [0.0, 0.5, 1.0]);
    /// assert_eq!(a.clamp(None, Some(1.0))?.to_vec::<f32>()?, [-2.0, 0.5, 1.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `bool`, a limit that is not a value of the type, or no memory.
    #[doc(alias = "clip")]
    pub fn clamp<S: Into<Scalar>>(&self, min: Option<S>, max: Option<S>) -> Result<Self> {
        let (min, max) = (min.map(Into::into), max.map(Into::into));
        OpRecorder::new("clamp", &self.device())?.apply(Op::Clip { min, max }, &[self])
    }
}

macro_rules! methods {
    ($($(#[$doc:meta])* $method:ident $op:ident, [$input:literal] [$other:literal] [$output:literal];)*) => {
        /// The name of the operation in errors.
        fn name(op: BinaryOp) -> &'static str {
            match op {
                $(BinaryOp::$op => stringify!($method),)*
                BinaryOp::Prelu => "prelu",
            }
        }

        impl Tensor {
            $(
                $(#[$doc])*
                ///
                /// ```
                /// # millstream_nn::doctest!();
                /// use millstream::{Device, Tensor};
                ///
                #[doc = concat!("let a = Tensor::new(&[", $input, "], &Device::cpu()?)?;")]
                #[doc = concat!("let result = a.", stringify!($method), "(", $other, ")?;")]
                #[doc = concat!("assert_eq!(result.to_string(), \"tensor([", $output, "])\");")]
                /// # Ok::<(), millstream::Error>(())
                /// ```
                ///
                /// # Errors
                ///
                /// As for [`binary`](Self::binary).
                pub fn $method(&self, other: impl TensorOrScalar) -> Result<Self> {
                    self.binary(BinaryOp::$op, other)
                }
            )*
        }
    };
}

// Each with the elements and the other argument of its example, and the result.
methods! {
    /// The sum; integers wrap around.
    add Add, ["1.0f32, 2.0"] ["&a"] ["2., 4."];
    /// The difference; integers wrap around.
    sub Sub, ["1.0f32, 2.0"] ["1"] ["0., 1."];
    /// The product, element by element; integers wrap around.
    mul Mul, ["1.0f32, 2.0"] ["&a"] ["1., 4."];
    /// The quotient; integers round towards zero, and division by zero gives 0.
    div Div, ["1.0f32, 2.0"] ["2"] ["0.5000, 1.0000"];
    /// The power.
    pow Pow, ["2.0f32, 3.0"] ["2"] ["4., 9."];
    /// The smaller element.
    minimum Min, ["1.0f32, 5.0"] ["3"] ["1., 3."];
    /// The larger element.
    maximum Max, ["1.0f32, 5.0"] ["3"] ["3., 5."];
    /// The remainder, with the sign of the divisor.
    #[doc(alias = "mod")]
    #[doc(alias = "rem")]
    remainder Mod, ["-7.0f32, 7.0"] ["3"] ["2., 1."];
    /// The remainder, with the sign of the dividend.
    fmod Fmod, ["-7.0f32, 7.0"] ["3"] ["-1.,  1."];
    /// The angle of the point `(other, self)`.
    atan2 Atan2, ["0.0f32, 1.0"] ["1"] ["0.0000, 0.7854"];
    /// Whether elements are equal.
    eq Equal, ["1.0f32, 2.0"] ["2"] ["false,  true"];
    /// Whether elements differ.
    ne NotEqual, ["1.0f32, 2.0"] ["2"] [" true, false"];
    /// Whether elements are less than those of `other`.
    lt Less, ["1.0f32, 2.0"] ["2"] [" true, false"];
    /// Whether elements are less than or equal to those of `other`.
    le LessEqual, ["2.0f32, 3.0"] ["2"] [" true, false"];
    /// Whether elements are greater than those of `other`.
    gt Greater, ["2.0f32, 3.0"] ["2"] ["false,  true"];
    /// Whether elements are greater than or equal to those of `other`.
    ge GreaterEqual, ["1.0f32, 2.0"] ["2"] ["false,  true"];
    /// Logical and of `bool`, bitwise and of integers.
    #[doc(alias = "bitwise_and")]
    logical_and And, ["true, false"] ["true"] [" true, false"];
    /// Logical or of `bool`, bitwise or of integers.
    #[doc(alias = "bitwise_or")]
    logical_or Or, ["true, false"] ["false"] [" true, false"];
    /// Exclusive or of `bool`, or of the bits of integers.
    #[doc(alias = "bitwise_xor")]
    logical_xor Xor, ["true, false"] ["true"] ["false,  true"];
    /// Integers with their bits shifted left.
    shift_left ShiftLeft, ["1i64, 3"] ["2"] [" 4, 12"];
    /// Integers with their bits shifted right.
    shift_right ShiftRight, ["8i64, 3"] ["1"] ["4, 1"];
}
