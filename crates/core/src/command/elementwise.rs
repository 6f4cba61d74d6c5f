//! Fill, copy, unary and binary operations.

use super::{BufferLike, Command, Op, Operand, TensorSpec};
use crate::{DType, Result, Scalar};

/// A function of one element. Unless it says otherwise, the output has the input's type.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum UnaryOp {
    // Numbers of any signed type.
    Abs,
    Neg,
    Sign,
    /// `max(x, 0)`, for any number.
    Relu,
    // Floating point.
    Exp,
    Expm1,
    Log,
    Log1p,
    Log2,
    Sqrt,
    Rsqrt,
    Reciprocal,
    Square,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Erf,
    Floor,
    Ceil,
    /// To the nearest integer, halves to even.
    Round,
    Trunc,
    Sigmoid,
    HardSigmoid {
        alpha: f32,
        beta: f32,
    },
    HardSwish,
    Silu,
    /// With the exact normal distribution.
    Gelu,
    /// By the tanh approximation.
    GeluTanh,
    /// `log(1 + eˣ)`.
    Softplus,
    Softsign,
    Mish,
    LeakyRelu {
        slope: f32,
    },
    Elu {
        alpha: f32,
    },
    Celu {
        alpha: f32,
    },
    Selu {
        alpha: f32,
        gamma: f32,
    },
    ThresholdedRelu {
        alpha: f32,
    },
    /// Moves each element towards zero by `bias`; elements within `lambda` of zero become 0.
    Shrink {
        lambda: f32,
        bias: f32,
    },
    // Floating point to bool.
    IsNan,
    IsInf {
        positive: bool,
        negative: bool,
    },
    // Bool, or the bits of an integer.
    Not,
}

impl UnaryOp {
    /// The element type of the output for an input type, or `None` where it has no meaning.
    pub fn output(self, input: DType) -> Option<DType> {
        use UnaryOp::*;
        match self {
            Abs | Neg | Sign | Relu | Square => input.is_number().then_some(input),
            IsNan | IsInf { .. } => input.is_float().then_some(DType::Bool),
            Not => (input == DType::Bool || input.is_int()).then_some(input),
            _ => input.is_float().then_some(input),
        }
    }
}

/// Declares an enum without fields, and a list of all its variants.
macro_rules! listed {
    ($count:literal: $(#[$about:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident,)* }) => {
        $(#[$about])*
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// All variants.
            pub const ALL: [$name; $count] = [$($name::$variant),*];
        }
    };
}

listed! {
    22:
    /// A function of two elements of one type.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[allow(missing_docs)]
    pub enum BinaryOp {
        // Numbers; integers wrap around.
        Add,
        Sub,
        Mul,
        /// Integers round towards zero, and division by zero gives 0.
        Div,
        Pow,
        Min,
        Max,
        /// The remainder with the sign of the divisor. For integers, the remainder by zero is 0.
        Mod,
        /// The remainder with the sign of the dividend. For integers, the remainder by zero is 0.
        Fmod,
        /// Floating point only.
        Atan2,
        /// `a` where `a` is not negative, else `b · a`: `b` holds the slopes.
        Prelu,
        // To bool.
        Equal,
        NotEqual,
        Less,
        LessEqual,
        Greater,
        GreaterEqual,
        // Bool, or the bits of an integer.
        And,
        Or,
        Xor,
        // Integers. A shift by the width or more, or by a negative number, shifts all bits out.
        ShiftLeft,
        /// Keeps the sign: a negative number with all bits shifted out is -1.
        ShiftRight,
    }
}

impl BinaryOp {
    /// The element type of the output for an input type, or `None` where it has no meaning.
    pub fn output(self, input: DType) -> Option<DType> {
        use BinaryOp::*;
        match self {
            Add | Sub | Mul | Div | Pow | Min | Max | Mod | Fmod | Prelu => {
                input.is_number().then_some(input)
            }
            Atan2 => input.is_float().then_some(input),
            Equal | NotEqual => (!input.is_storage()).then_some(DType::Bool),
            Less | LessEqual | Greater | GreaterEqual => input.is_number().then_some(DType::Bool),
            And | Or | Xor => (input == DType::Bool || input.is_int()).then_some(input),
            ShiftLeft | ShiftRight => input.is_int().then_some(input),
        }
    }
}

impl<B: BufferLike> Command<B> {
    /// Gives every element of `dst` one value.
    ///
    /// # Errors
    ///
    /// An operand outside its buffer, or one that overlaps itself.
    pub fn fill(dst: Operand<B>, value: impl Into<Scalar>) -> Result<Self> {
        let op = Op::Fill { value: value.into(), spec: TensorSpec::of(&dst.layout) };
        Self::new(op, [dst], [])
    }

    /// Copies `src` to `dst`, converting the element type. `src` broadcasts.
    ///
    /// The element type is converted as by Rust's `as`. Floating point to integer cuts the fraction off and
    /// saturates; integer to integer wraps around. `bool` is true for any value other than zero. To floating point,
    /// values are rounded to nearest, ties to even.
    ///
    /// Storage-only types are converted as by ONNX's Cast. Numbers beyond the largest value of a floating-point type
    /// become that value; with `saturate` off (see [`Op::Copy`]) they become infinity or NaN. 4-bit integers keep the
    /// low bits of the number. Storage-only types convert to and from `f32`, `f16` and `bf16`; 4-bit integers also
    /// convert to and from integers.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::command::{Command};
    /// use millstream::memory::Layout;
    /// use millstream::{DType, Device};
    ///
    /// let stream = Device::cpu()?.stream()?;
    /// let layout = |shape: &[usize]| Layout::contiguous(DType::F32, shape);
    /// let (from, to) = (stream.allocate(24)?, stream.allocate(24)?);
    /// let columns = layout(&[2, 3])?.transpose(0, 1)?;
    /// stream.record(Command::copy(to.operand(layout(&[3, 2])?), from.operand(columns))?)?;
    /// # stream.synchronize()?;
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A shape that does not broadcast, or operands that do not fit their buffers or overlap.
    pub fn copy(dst: Operand<B>, src: Operand<B>) -> Result<Self> {
        let op = Op::Copy { dtype: dst.layout.dtype(), saturate: true };
        Self::new(op, [dst], [src])
    }

    /// Applies a function to each element. `src` broadcasts; `dst` may be `src`.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::command::{Command, UnaryOp};
    /// use millstream::memory::Layout;
    /// use millstream::{DType, Device};
    ///
    /// let stream = Device::cpu()?.stream()?;
    /// let layout = |shape: &[usize]| Layout::contiguous(DType::F32, shape);
    /// let x = stream.allocate(16)?;
    /// let x = x.operand(layout(&[4])?);
    /// stream.record(Command::unary(UnaryOp::Relu, x, x)?)?; // in place
    /// # stream.synchronize()?;
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An element type the function has no meaning for, a shape that does not broadcast, or operands
    /// that do not fit their buffers or overlap.
    pub fn unary(op: UnaryOp, dst: Operand<B>, src: Operand<B>) -> Result<Self> {
        Self::new(Op::Unary { op }, [dst], [src])
    }

    /// Applies a function to pairs of elements. Both inputs broadcast; `dst` may be one of them.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::command::{BinaryOp, Command};
    /// use millstream::memory::Layout;
    /// use millstream::{DType, Device};
    ///
    /// let stream = Device::cpu()?.stream()?;
    /// let layout = |shape: &[usize]| Layout::contiguous(DType::F32, shape);
    /// let (a, b) = (stream.allocate(16)?, stream.allocate(4)?);
    /// let (a, b) = (a.operand(layout(&[4])?), b.operand(layout(&[1])?)); // b broadcasts
    /// stream.record(Command::binary(BinaryOp::Mul, a, a, b)?)?; // in place
    /// # stream.synchronize()?;
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Inputs of different types, a type the function has no meaning for, shapes that do not
    /// broadcast, or operands that do not fit their buffers or overlap.
    pub fn binary(op: BinaryOp, dst: Operand<B>, a: Operand<B>, b: Operand<B>) -> Result<Self> {
        Self::new(Op::Binary { op }, [dst], [a, b])
    }
}
