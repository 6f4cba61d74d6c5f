//! Functions of two tensors, or of a tensor and a number.

use millstream_core::{BinaryOp, DType, Op, Scalar};

use super::{OpRecorder, Tensor};
use crate::Result;
use crate::error::invalid;

/// A tensor or a number, as the second argument of an operation. A number takes the tensor's type.
pub trait TensorOrScalar {
    /// As a tensor that fits `like` in type and device.
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
            format!("{value} is no {dtype}: convert the tensor with to_dtype first"),
        );
    }
    Tensor::full(&[], value, dtype, &like.device())
}

impl Tensor {
    /// Applies a function to pairs of elements; shapes broadcast.
    ///
    /// # Errors
    ///
    /// Shapes that do not broadcast, types that differ or that the function has no meaning for, or no
    /// memory.
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
    /// # Errors
    ///
    /// Shapes that do not broadcast, types that do not fit, or no memory.
    pub fn where_cond(&self, yes: &Tensor, no: impl TensorOrScalar) -> Result<Self> {
        let name = "where_cond";
        let no = no.as_tensor(name, yes)?;
        OpRecorder::new(name, &self.device())?.apply(Op::Where, &[self, yes, &no])
    }

    /// Limits each element to a range; without a limit that side is open.
    ///
    /// # Errors
    ///
    /// `bool`, a limit that the type cannot have, or no memory.
    pub fn clamp<S: Into<Scalar>>(&self, min: Option<S>, max: Option<S>) -> Result<Self> {
        let (min, max) = (min.map(Into::into), max.map(Into::into));
        OpRecorder::new("clamp", &self.device())?.apply(Op::Clip { min, max }, &[self])
    }
}

macro_rules! methods {
    ($($(#[$doc:meta])* $method:ident $name:literal $op:ident),* $(,)?) => {
        /// The name that errors have.
        fn name(op: BinaryOp) -> &'static str {
            match op {
                $(BinaryOp::$op => $name,)*
                BinaryOp::Prelu => "prelu",
            }
        }

        impl Tensor {
            $(
                $(#[$doc])*
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

methods! {
    /// The sum; integers wrap around.
    add "add" Add,
    /// The difference; integers wrap around.
    sub "sub" Sub,
    /// The product, element by element; integers wrap around.
    mul "mul" Mul,
    /// The quotient; integers round towards zero, and division by zero gives 0.
    div "div" Div,
    /// The power.
    pow "pow" Pow,
    /// The smaller element.
    minimum "minimum" Min,
    /// The larger element.
    maximum "maximum" Max,
    /// The remainder with the sign of the divisor.
    remainder "remainder" Mod,
    /// The remainder with the sign of the dividend.
    fmod "fmod" Fmod,
    /// The angle of the point `(other, self)`.
    atan2 "atan2" Atan2,
    /// Whether elements are equal.
    eq "eq" Equal,
    /// Whether elements differ.
    ne "ne" NotEqual,
    /// Whether elements are less.
    lt "lt" Less,
    /// Whether elements are less or equal.
    le "le" LessEqual,
    /// Whether elements are greater.
    gt "gt" Greater,
    /// Whether elements are greater or equal.
    ge "ge" GreaterEqual,
    /// Both, of `bool` or of the bits of integers.
    logical_and "logical_and" And,
    /// Either, of `bool` or of the bits of integers.
    logical_or "logical_or" Or,
    /// One but not both, of `bool` or of the bits of integers.
    logical_xor "logical_xor" Xor,
    /// The bits of integers moved up.
    shift_left "shift_left" ShiftLeft,
    /// The bits of integers moved down.
    shift_right "shift_right" ShiftRight,
}
