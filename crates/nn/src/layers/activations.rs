//! Activations and other layers without parameters.

use millstream_core::{Activation, BinaryOp, LayerName};

use super::Module;
use crate::{Init, Result, Tensor, Weights};

macro_rules! fused {
    ($($(#[$doc:meta])* $name:ident $activation:expr),* $(,)?) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default)]
            pub struct $name;

            impl Module for $name {
                fn forward(&self, input: &Tensor) -> Result<Tensor> {
                    input.activate($activation)
                }

                fn as_activation(&self) -> Option<Activation> {
                    Some($activation)
                }
            }
        )*
    };
}

fused! {
    /// `max(x, 0)`.
    ReLU Activation::Relu,
    /// `min(max(x, 0), 6)`.
    ReLU6 Activation::Clip { min: 0.0, max: 6.0 },
    /// `x / (1 + e⁻ˣ)`.
    SiLU Activation::Silu,
    /// `1 / (1 + e⁻ˣ)`.
    Sigmoid Activation::Sigmoid,
    /// `tanh x`.
    Tanh Activation::Tanh,
    /// `x · min(max(x + 3, 0), 6) / 6`.
    Hardswish Activation::HardSwish,
}

/// `x Φ(x)`.
#[derive(Clone, Copy, Debug, Default)]
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
}

/// `x`, or `negative_slope · x` below zero.
#[derive(Clone, Copy, Debug)]
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
}

macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident $method:ident),* $(,)?) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default)]
            pub struct $name;

            impl Module for $name {
                fn forward(&self, input: &Tensor) -> Result<Tensor> {
                    input.$method()
                }
            }
        )*
    };
}

plain! {
    /// `min(max(x / 6 + 1/2, 0), 1)`.
    Hardsigmoid hardsigmoid,
    /// `x · tanh(softplus(x))`.
    Mish mish,
    /// The self-normalizing exponential unit.
    SELU selu,
    /// `log(1 + eˣ)`.
    Softplus softplus,
    /// `x / (1 + |x|)`.
    Softsign softsign,
}

/// `x`, or `alpha · (eˣ - 1)` below zero.
#[derive(Clone, Copy, Debug)]
pub struct ELU {
    /// The limit below zero, with the other sign.
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
}

/// `x`, or `weight · x` below zero, with one weight or one for each channel. Parameter: `weight`
/// `[num_parameters]`.
pub struct PReLU {
    weight: Tensor,
    name: LayerName,
}

impl PReLU {
    /// Takes `weight`.
    ///
    /// # Errors
    ///
    /// A weight that is missing or of another shape, or no memory.
    pub fn new(num_parameters: usize, weights: &Weights) -> Result<Self> {
        let weight = weights.get("weight", &[num_parameters], Init::Constant(0.25))?;
        Ok(Self { weight, name: weights.layer_name("PReLU") })
    }
}

impl Module for PReLU {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let _layer = self.name.enter();
        let mut slope = self.weight.clone();
        // Channels are the second axis; what is behind it has the same slope.
        for _ in 2..input.rank() {
            slope = slope.unsqueeze(-1)?;
        }
        input.binary(BinaryOp::Prelu, &slope)
    }
}

/// Softmax along an axis.
#[derive(Clone, Copy, Debug)]
pub struct Softmax {
    /// The axis; a negative one counts from the end.
    pub dim: isize,
}

impl Module for Softmax {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        input.softmax(self.dim)
    }
}

/// The logarithm of softmax along an axis.
#[derive(Clone, Copy, Debug)]
pub struct LogSoftmax {
    /// The axis; a negative one counts from the end.
    pub dim: isize,
}

impl Module for LogSoftmax {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        input.log_softmax(self.dim)
    }
}

/// The input itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity;

impl Module for Identity {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        Ok(input.clone())
    }

    fn as_activation(&self) -> Option<Activation> {
        Some(Activation::None)
    }
}

/// The input itself: nothing is dropped when a network is only run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dropout {
    /// The share that training would drop.
    pub p: f32,
}

impl Module for Dropout {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        Ok(input.clone())
    }

    fn as_activation(&self) -> Option<Activation> {
        Some(Activation::None)
    }
}

/// Joins all axes but the first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flatten;

impl Module for Flatten {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        input.flatten(1, -1)
    }
}
