//! Activations that a matmul or convolution applies as it stores.

/// A function applied to each element of a result before it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Activation {
    /// Nothing.
    #[default]
    None,
    /// `max(x, 0)`.
    Relu,
    /// `x Φ(x)` with the exact normal distribution.
    Gelu,
    /// `x Φ(x)` by the tanh approximation.
    GeluTanh,
    /// `x / (1 + e⁻ˣ)`.
    Silu,
    /// `1 / (1 + e⁻ˣ)`.
    Sigmoid,
    /// `tanh x`.
    Tanh,
    /// `x` or `slope · x` below zero.
    LeakyRelu {
        /// The slope below zero.
        slope: f32,
    },
    /// `x · min(max(x + 3, 0), 6) / 6`.
    HardSwish,
    /// `scale · x · min(max(x + 3, 0), 6) / 6 + shift`.
    ScaledHardSwish {
        /// What the hard swish is multiplied by.
        scale: f32,
        /// What is added then.
        shift: f32,
    },
    /// `min(max(x, min), max)`.
    Clip {
        /// The lower limit.
        min: f32,
        /// The upper limit.
        max: f32,
    },
}
