//! Functions of each element.

use millstream_core::{Op, UnaryOp};

use super::{OpRecorder, Tensor};
use crate::Result;

impl Tensor {
    /// Applies a function to each element.
    ///
    /// # Errors
    ///
    /// A type the function has no meaning for, or no memory.
    pub fn unary(&self, op: UnaryOp) -> Result<Self> {
        self.map("unary", op)
    }

    fn map(&self, name: &'static str, op: UnaryOp) -> Result<Self> {
        OpRecorder::new(name, &self.device())?.apply(Op::Unary { op }, &[self])
    }

    /// `x` or `slope · x` below zero.
    ///
    /// # Errors
    ///
    /// As for [`unary`](Self::unary).
    pub fn leaky_relu(&self, slope: f32) -> Result<Self> {
        self.map("leaky_relu", UnaryOp::LeakyRelu { slope })
    }

    /// `x` or `alpha · (eˣ - 1)` below zero.
    ///
    /// # Errors
    ///
    /// As for [`unary`](Self::unary).
    pub fn elu(&self, alpha: f32) -> Result<Self> {
        self.map("elu", UnaryOp::Elu { alpha })
    }
}

macro_rules! methods {
    ($($(#[$doc:meta])* $method:ident $name:literal $op:expr),* $(,)?) => {
        impl Tensor {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                ///
                /// As for [`unary`](Self::unary).
                pub fn $method(&self) -> Result<Self> {
                    self.map($name, $op)
                }
            )*
        }
    };
}

methods! {
    /// The absolute value.
    abs "abs" UnaryOp::Abs,
    /// The opposite.
    neg "neg" UnaryOp::Neg,
    /// -1, 0 or 1.
    sign "sign" UnaryOp::Sign,
    /// `eˣ`.
    exp "exp" UnaryOp::Exp,
    /// `eˣ - 1`, exact near 0.
    expm1 "expm1" UnaryOp::Expm1,
    /// The natural logarithm.
    log "log" UnaryOp::Log,
    /// `log(1 + x)`, exact near 0.
    log1p "log1p" UnaryOp::Log1p,
    /// The logarithm to base 2.
    log2 "log2" UnaryOp::Log2,
    /// The square root.
    sqrt "sqrt" UnaryOp::Sqrt,
    /// `1 / √x`.
    rsqrt "rsqrt" UnaryOp::Rsqrt,
    /// `1 / x`.
    reciprocal "reciprocal" UnaryOp::Reciprocal,
    /// `x²`.
    square "square" UnaryOp::Square,
    /// The sine.
    sin "sin" UnaryOp::Sin,
    /// The cosine.
    cos "cos" UnaryOp::Cos,
    /// The tangent.
    tan "tan" UnaryOp::Tan,
    /// The inverse sine.
    asin "asin" UnaryOp::Asin,
    /// The inverse cosine.
    acos "acos" UnaryOp::Acos,
    /// The inverse tangent.
    atan "atan" UnaryOp::Atan,
    /// The hyperbolic sine.
    sinh "sinh" UnaryOp::Sinh,
    /// The hyperbolic cosine.
    cosh "cosh" UnaryOp::Cosh,
    /// The hyperbolic tangent.
    tanh "tanh" UnaryOp::Tanh,
    /// The inverse hyperbolic sine.
    asinh "asinh" UnaryOp::Asinh,
    /// The inverse hyperbolic cosine.
    acosh "acosh" UnaryOp::Acosh,
    /// The inverse hyperbolic tangent.
    atanh "atanh" UnaryOp::Atanh,
    /// The error function.
    erf "erf" UnaryOp::Erf,
    /// The next integer below.
    floor "floor" UnaryOp::Floor,
    /// The next integer above.
    ceil "ceil" UnaryOp::Ceil,
    /// The nearest integer, halves to even.
    round "round" UnaryOp::Round,
    /// The integer part.
    trunc "trunc" UnaryOp::Trunc,
    /// `max(x, 0)`.
    relu "relu" UnaryOp::Relu,
    /// `x Φ(x)` with the exact normal distribution.
    gelu "gelu" UnaryOp::Gelu,
    /// `x Φ(x)` by the tanh approximation.
    gelu_tanh "gelu_tanh" UnaryOp::GeluTanh,
    /// `x / (1 + e⁻ˣ)`.
    silu "silu" UnaryOp::Silu,
    /// `1 / (1 + e⁻ˣ)`.
    sigmoid "sigmoid" UnaryOp::Sigmoid,
    /// `min(max(x / 6 + 1/2, 0), 1)`, as PyTorch has it.
    hardsigmoid "hardsigmoid" UnaryOp::HardSigmoid { alpha: 1.0 / 6.0, beta: 0.5 },
    /// `x · hardsigmoid(x)`.
    hardswish "hardswish" UnaryOp::HardSwish,
    /// `log(1 + eˣ)`.
    softplus "softplus" UnaryOp::Softplus,
    /// `x / (1 + |x|)`.
    softsign "softsign" UnaryOp::Softsign,
    /// `x · tanh(softplus(x))`.
    mish "mish" UnaryOp::Mish,
    /// The self-normalizing exponential unit.
    selu "selu" UnaryOp::Selu { alpha: 1.673_263_2, gamma: 1.050_701 },
    /// Whether elements are not numbers.
    is_nan "is_nan" UnaryOp::IsNan,
    /// Whether elements are infinite.
    is_inf "is_inf" UnaryOp::IsInf { positive: true, negative: true },
    /// The opposite of `bool`, or of the bits of an integer.
    logical_not "logical_not" UnaryOp::Not,
}
