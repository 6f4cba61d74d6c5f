//! Activations as program texts know them.

use millstream_core::Activation;

/// The constant `ACT` of a program, and the two numbers that `activate` takes with it.
pub(super) fn activation_code(activation: Activation) -> (i32, f32, f32) {
    match activation {
        Activation::None => (0, 0.0, 0.0),
        Activation::Relu => (1, 0.0, 0.0),
        Activation::Gelu => (2, 0.0, 0.0),
        Activation::GeluTanh => (3, 0.0, 0.0),
        Activation::Silu => (4, 0.0, 0.0),
        Activation::Sigmoid => (5, 0.0, 0.0),
        Activation::Tanh => (6, 0.0, 0.0),
        Activation::LeakyRelu { slope } => (7, slope, 0.0),
        Activation::HardSwish => (8, 0.0, 0.0),
        Activation::Clip { min, max } => (9, min, max),
    }
}
