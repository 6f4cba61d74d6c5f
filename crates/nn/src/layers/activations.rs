//! Activations and other layers without parameters.

use millstream_core::Activation;

use super::Module;
use super::describe::described;
use crate::{Result, Tensor};

macro_rules! fused {
    ($($(#[$doc:meta])* $name:ident $activation:expr, [$output:literal];)*) => {
        $(
            $(#[$doc])*
            ///
            /// ```
            /// # millstream_nn::doctest!();
            #[doc = concat!("use millstream::nn::{Module, ", stringify!($name), "};")]
            /// use millstream::{Device, Tensor};
            ///
            /// let input = Tensor::new(&[-1.0f32, 2.0, 8.0], &Device::cpu()?)?;
            #[doc = concat!("let output = ", stringify!($name), ".forward(&input)?;")]
            #[doc = concat!("assert_eq!(output.to_string(), \"tensor([", $output, "])\");")]
            /// # Ok::<(), millstream::Error>(())
            /// ```
            #[derive(Clone, Copy, Default)]
            pub struct $name;

            impl Module for $name {
                fn forward(&self, input: &Tensor) -> Result<Tensor> {
                    input.activate($activation)
                }

                fn as_activation(&self) -> Option<Activation> {
                    Some($activation)
                }

                described!();
            }
        )*
    };
}

// Each with what its example gives.
fused! {
    /// `max(x, 0)`.
    ReLU Activation::Relu, ["0., 2., 8."];
    /// `min(max(x, 0), 6)`.
    ReLU6 Activation::Clip { min: 0.0, max: 6.0 }, ["0., 2., 6."];
    /// `x / (1 + e⁻ˣ)`.
    SiLU Activation::Silu, ["-0.2689,  1.7616,  7.9973"];
    /// `1 / (1 + e⁻ˣ)`.
    Sigmoid Activation::Sigmoid, ["0.2689, 0.8808, 0.9997"];
    /// `tanh x`.
    Tanh Activation::Tanh, ["-0.7616,  0.9640,  1.0000"];
    /// `x · min(max(x + 3, 0), 6) / 6`.
    Hardswish Activation::HardSwish, ["-0.3333,  1.6667,  8.0000"];
}

/// `x Φ(x)`.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{GELU, Module};
/// use millstream::{Device, Tensor};
///
/// let input = Tensor::new(&[-1.0f32, 2.0], &Device::cpu()?)?;
/// assert_eq!(GELU { tanh: false }.forward(&input)?.to_string(), "tensor([-0.1587,  1.9545])");
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Copy, Default)]
pub struct GELU {
    /// Use the tanh approximation (`approximate="tanh"` in PyTorch) instead of the exact distribution.
    pub tanh: bool,
}

impl GELU {
    fn activation(self) -> Activation {
        if self.tanh { Activation::GeluTanh } else { Activation::Gelu }
    }
}

impl Module for GELU {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        input.activate(self.activation())
    }

    fn as_activation(&self) -> Option<Activation> {
        Some(self.activation())
    }

    described!();
}

/// `x`, or `negative_slope · x` below zero.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{LeakyReLU, Module};
/// use millstream::{Device, Tensor};
///
/// let input = Tensor::new(&[-1.0f32, 2.0], &Device::cpu()?)?;
/// assert_eq!(LeakyReLU { negative_slope: 0.5 }.forward(&input)?.to_string(), "tensor([-0.5000,  2.0000])");
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct LeakyReLU {
    /// The slope below zero.
    pub negative_slope: f32,
}

impl Default for LeakyReLU {
    fn default() -> Self {
        Self { negative_slope: 0.01 }
    }
}

impl Module for LeakyReLU {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        input.leaky_relu(self.negative_slope)
    }

    fn as_activation(&self) -> Option<Activation> {
        Some(Activation::LeakyRelu { slope: self.negative_slope })
    }

    described!();
}

macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident $method:ident, [$output:literal];)*) => {
        $(
            $(#[$doc])*
            ///
            /// ```
            /// # millstream_nn::doctest!();
            #[doc = concat!("use millstream::nn::{Module, ", stringify!($name), "};")]
            /// use millstream::{Device, Tensor};
            ///
            /// let input = Tensor::new(&[-1.0f32, 2.0, 8.0], &Device::cpu()?)?;
            #[doc = concat!("let output = ", stringify!($name), ".forward(&input)?;")]
            #[doc = concat!("assert_eq!(output.to_string(), \"tensor([", $output, "])\");")]
            /// # Ok::<(), millstream::Error>(())
            /// ```
            #[derive(Clone, Copy, Default)]
            pub struct $name;

            impl Module for $name {
                fn forward(&self, input: &Tensor) -> Result<Tensor> {
                    input.$method()
                }

                described!();
            }
        )*
    };
}

// Each with what its example gives.
plain! {
    /// `min(max(x / 6 + 1/2, 0), 1)`.
    Hardsigmoid hardsigmoid, ["0.3333, 0.8333, 1.0000"];
    /// `x · tanh(softplus(x))`.
    Mish mish, ["-0.3034,  1.9440,  8.0000"];
    /// The self-normalizing exponential unit.
    SELU selu, ["-1.1113,  2.1014,  8.4056"];
    /// `log(1 + eˣ)`.
    Softplus softplus, ["0.3133, 2.1269, 8.0003"];
    /// `x / (1 + |x|)`.
    Softsign softsign, ["-0.5000,  0.6667,  0.8889"];
}

/// `x`, or `alpha · (eˣ - 1)` below zero.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{ELU, Module};
/// use millstream::{Device, Tensor};
///
/// let input = Tensor::new(&[-1.0f32, 2.0], &Device::cpu()?)?;
/// assert_eq!(ELU::default().forward(&input)?.to_string(), "tensor([-0.6321,  2.0000])");
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct ELU {
    /// The result approaches `-alpha` for large negative inputs.
    pub alpha: f32,
}

impl Default for ELU {
    fn default() -> Self {
        Self { alpha: 1.0 }
    }
}

impl Module for ELU {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        input.elu(self.alpha)
    }

    described!();
}

/// Softmax along an axis.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{Module, Softmax};
/// use millstream::{Device, Tensor};
///
/// let input = Tensor::new(&[-1.0f32, 2.0], &Device::cpu()?)?;
/// assert_eq!(Softmax { dim: -1 }.forward(&input)?.to_string(), "tensor([0.0474, 0.9526])");
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Softmax {
    /// The axis; a negative one counts from the end.
    pub dim: isize,
}

impl Module for Softmax {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        input.softmax(self.dim)
    }

    described!();
}

/// The logarithm of softmax along an axis.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{LogSoftmax, Module};
/// use millstream::{Device, Tensor};
///
/// let input = Tensor::new(&[-1.0f32, 2.0], &Device::cpu()?)?;
/// assert_eq!(LogSoftmax { dim: -1 }.forward(&input)?.to_string(), "tensor([-3.0486, -0.0486])");
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct LogSoftmax {
    /// The axis; a negative one counts from the end.
    pub dim: isize,
}

impl Module for LogSoftmax {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        input.log_softmax(self.dim)
    }

    described!();
}

/// Returns its input.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{Identity, Module};
/// use millstream::{Device, Tensor};
///
/// let input = Tensor::new(&[-1.0f32, 2.0], &Device::cpu()?)?;
/// assert_eq!(Identity.forward(&input)?.to_string(), "tensor([-1.,  2.])");
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Copy, Default)]
pub struct Identity;

impl Module for Identity {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        Ok(input.clone())
    }

    fn as_activation(&self) -> Option<Activation> {
        Some(Activation::None)
    }

    described!();
}

/// Returns its input: nothing is dropped in inference.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{Dropout, Module};
/// use millstream::{Device, Tensor};
///
/// let input = Tensor::new(&[-1.0f32, 2.0], &Device::cpu()?)?;
/// assert_eq!(Dropout { p: 0.1 }.forward(&input)?.to_string(), "tensor([-1.,  2.])");
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Copy, Default)]
pub struct Dropout {
    /// The share of elements that training drops.
    pub p: f32,
}

impl Module for Dropout {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        Ok(input.clone())
    }

    fn as_activation(&self) -> Option<Activation> {
        Some(Activation::None)
    }

    described!();
}

/// Joins all axes but the first.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{Flatten, Module};
/// use millstream::{DType, Device, Tensor};
///
/// let input = Tensor::ones(&[2, 3, 4, 4], DType::F32, &Device::cpu()?)?;
/// assert_eq!(Flatten.forward(&input)?.shape(), [2, 48]);
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Copy, Default)]
pub struct Flatten;

impl Module for Flatten {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        input.flatten(1, -1)
    }

    described!();
}
