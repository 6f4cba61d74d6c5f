//! Functions of each element.

use millstream_core::{Op, UnaryOp};

use super::{OpRecorder, Tensor};
use crate::Result;

impl Tensor {
    /// Applies a function to each element.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::command::UnaryOp;
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[4.0f32, 9.0], &Device::cpu()?)?;
    /// assert_eq!(a.unary(UnaryOp::Sqrt)?.to_vec::<f32>()?, [2.0, 3.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A type that the function is not defined for, or no memory.
    pub fn unary(&self, op: UnaryOp) -> Result<Self> {
        self.map("unary", op)
    }

    fn map(&self, name: &'static str, op: UnaryOp) -> Result<Self> {
        OpRecorder::new(name, &self.device())?.apply(Op::Unary { op }, &[self])
    }

    /// `x`, or `slope · x` below zero.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[-2.0f32, 3.0], &Device::cpu()?)?;
    /// assert_eq!(a.leaky_relu(0.5)?.to_vec::<f32>()?, [-1.0, 3.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`unary`](Self::unary).
    pub fn leaky_relu(&self, slope: f32) -> Result<Self> {
        self.map("leaky_relu", UnaryOp::LeakyRelu { slope })
    }

    /// `x`, or `alpha · (eˣ - 1)` below zero.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[-1.0f32, 2.0], &Device::cpu()?)?;
    /// assert_eq!(a.elu(1.0)?.to_string(), "tensor([-0.6321,  2.0000])");
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`unary`](Self::unary).
    pub fn elu(&self, alpha: f32) -> Result<Self> {
        self.map("elu", UnaryOp::Elu { alpha })
    }
}

macro_rules! methods {
    ($($(#[$doc:meta])* $method:ident $op:expr, [$input:literal] [$output:literal];)*) => {
        impl Tensor {
            $(
                $(#[$doc])*
                ///
                /// ```
                /// # millstream_nn::doctest!();
                /// use millstream::{Device, Tensor};
                ///
                #[doc = concat!("let a = Tensor::new(&[", $input, "], &Device::cpu()?)?;")]
                #[doc = concat!(
                    "assert_eq!(a.", stringify!($method), "()?.to_string(), \"tensor([", $output, "])\");"
                )]
                /// # Ok::<(), millstream::Error>(())
                /// ```
                ///
                /// # Errors
                ///
                /// As for [`unary`](Self::unary).
                pub fn $method(&self) -> Result<Self> {
                    self.map(stringify!($method), $op)
                }
            )*
        }
    };
}

// Each with the elements of its example, and what they become.
methods! {
    /// The absolute value.
    abs UnaryOp::Abs, ["-1.5f32, 2.0"] ["1.5000, 2.0000"];
    /// The negative.
    neg UnaryOp::Neg, ["-1.5f32, 2.0"] [" 1.5000, -2.0000"];
    /// -1, 0 or 1.
    sign UnaryOp::Sign, ["-1.5f32, 0.0, 2.0"] ["-1.,  0.,  1."];
    /// `eˣ`.
    exp UnaryOp::Exp, ["0.0f32, 1.0"] ["1.0000, 2.7183"];
    /// `eˣ - 1`, accurate near 0.
    expm1 UnaryOp::Expm1, ["0.0f32, 1.0"] ["0.0000, 1.7183"];
    /// The natural logarithm.
    log UnaryOp::Log, ["1.0f32, 10.0"] ["0.0000, 2.3026"];
    /// `log(1 + x)`, accurate near 0.
    log1p UnaryOp::Log1p, ["0.0f32, 1.0"] ["0.0000, 0.6931"];
    /// The logarithm to base 2.
    log2 UnaryOp::Log2, ["1.0f32, 8.0"] ["0., 3."];
    /// The square root.
    sqrt UnaryOp::Sqrt, ["4.0f32, 9.0"] ["2., 3."];
    /// `1 / √x`.
    rsqrt UnaryOp::Rsqrt, ["1.0f32, 4.0"] ["1.0000, 0.5000"];
    /// `1 / x`.
    reciprocal UnaryOp::Reciprocal, ["2.0f32, 4.0"] ["0.5000, 0.2500"];
    /// `x²`.
    square UnaryOp::Square, ["-3.0f32, 4.0"] [" 9., 16."];
    /// The sine.
    sin UnaryOp::Sin, ["0.0f32, 1.0"] ["0.0000, 0.8415"];
    /// The cosine.
    cos UnaryOp::Cos, ["0.0f32, 1.0"] ["1.0000, 0.5403"];
    /// The tangent.
    tan UnaryOp::Tan, ["0.0f32, 1.0"] ["0.0000, 1.5574"];
    /// The inverse sine.
    asin UnaryOp::Asin, ["0.0f32, 1.0"] ["0.0000, 1.5708"];
    /// The inverse cosine.
    acos UnaryOp::Acos, ["0.0f32, 1.0"] ["1.5708, 0.0000"];
    /// The inverse tangent.
    atan UnaryOp::Atan, ["0.0f32, 1.0"] ["0.0000, 0.7854"];
    /// The hyperbolic sine.
    sinh UnaryOp::Sinh, ["0.0f32, 1.0"] ["0.0000, 1.1752"];
    /// The hyperbolic cosine.
    cosh UnaryOp::Cosh, ["0.0f32, 1.0"] ["1.0000, 1.5431"];
    /// The hyperbolic tangent.
    tanh UnaryOp::Tanh, ["0.0f32, 1.0"] ["0.0000, 0.7616"];
    /// The inverse hyperbolic sine.
    asinh UnaryOp::Asinh, ["0.0f32, 1.0"] ["0.0000, 0.8814"];
    /// The inverse hyperbolic cosine.
    acosh UnaryOp::Acosh, ["1.0f32, 2.0"] ["0.0000, 1.3170"];
    /// The inverse hyperbolic tangent.
    atanh UnaryOp::Atanh, ["0.0f32, 0.5"] ["0.0000, 0.5493"];
    /// The error function.
    erf UnaryOp::Erf, ["0.0f32, 1.0"] ["0.0000, 0.8427"];
    /// The largest integer that is not above `x`.
    floor UnaryOp::Floor, ["-1.5f32, 1.5"] ["-2.,  1."];
    /// The smallest integer that is not below `x`.
    ceil UnaryOp::Ceil, ["-1.5f32, 1.5"] ["-1.,  2."];
    /// The nearest integer; halves go to the even one.
    round UnaryOp::Round, ["1.4f32, 2.5, 3.5"] ["1., 2., 4."];
    /// The integer part.
    trunc UnaryOp::Trunc, ["-1.5f32, 1.5"] ["-1.,  1."];
    /// `max(x, 0)`.
    relu UnaryOp::Relu, ["-1.0f32, 2.0"] ["0., 2."];
    /// `x Φ(x)` with the exact normal distribution.
    gelu UnaryOp::Gelu, ["-1.0f32, 1.0"] ["-0.1587,  0.8413"];
    /// `x Φ(x)` by the tanh approximation.
    gelu_tanh UnaryOp::GeluTanh, ["-1.0f32, 1.0"] ["-0.1588,  0.8412"];
    /// `x / (1 + e⁻ˣ)`.
    #[doc(alias = "swish")]
    silu UnaryOp::Silu, ["-1.0f32, 1.0"] ["-0.2689,  0.7311"];
    /// `1 / (1 + e⁻ˣ)`.
    sigmoid UnaryOp::Sigmoid, ["-1.0f32, 0.0"] ["0.2689, 0.5000"];
    /// `min(max(x / 6 + 1/2, 0), 1)`, as PyTorch has it.
    hardsigmoid UnaryOp::HardSigmoid { alpha: 1.0 / 6.0, beta: 0.5 }, ["-3.0f32, 0.0, 3.0"] ["0.0000, 0.5000, 1.0000"];
    /// `x · hardsigmoid(x)`.
    hardswish UnaryOp::HardSwish, ["0.0f32, 1.0, 3.0"] ["0.0000, 0.6667, 3.0000"];
    /// `log(1 + eˣ)`.
    softplus UnaryOp::Softplus, ["0.0f32, 1.0"] ["0.6931, 1.3133"];
    /// `x / (1 + |x|)`.
    softsign UnaryOp::Softsign, ["-1.0f32, 1.0"] ["-0.5000,  0.5000"];
    /// `x · tanh(softplus(x))`.
    mish UnaryOp::Mish, ["-1.0f32, 1.0"] ["-0.3034,  0.8651"];
    /// The self-normalizing exponential unit.
    selu UnaryOp::Selu { alpha: 1.673_263_2, gamma: 1.050_701 }, ["-1.0f32, 1.0"] ["-1.1113,  1.0507"];
    /// Whether elements are NaN.
    #[doc(alias = "isnan")]
    is_nan UnaryOp::IsNan, ["f32::NAN, 1.0"] [" true, false"];
    /// Whether elements are infinite.
    #[doc(alias = "isinf")]
    is_inf UnaryOp::IsInf { positive: true, negative: true }, ["f32::INFINITY, 1.0"] [" true, false"];
    /// Logical not of `bool`, bitwise not of integers.
    #[doc(alias = "bitwise_not")]
    logical_not UnaryOp::Not, ["true, false"] ["false,  true"];
}
