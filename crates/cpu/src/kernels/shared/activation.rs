//! Activations applied to a dense row of results before they are stored.

use millstream_core::Activation;

use super::math::functions as f;
use super::number::Float;

/// Applies an activation to every value.
#[inline(always)]
pub(crate) fn apply<F: Float>(activation: Activation, values: &mut [F]) {
    match activation {
        Activation::None => {}
        Activation::Relu => map(values, f::relu),
        Activation::Gelu => map(values, f::gelu),
        Activation::GeluTanh => map(values, f::gelu_tanh),
        Activation::Silu => map(values, f::silu),
        Activation::Sigmoid => map(values, f::sigmoid),
        Activation::Tanh => map(values, F::tanh),
        Activation::LeakyRelu { slope } => {
            let slope = F::from_f32(slope);
            map(values, |x| f::leaky_relu(x, slope));
        }
        Activation::HardSwish => map(values, f::hard_swish),
        Activation::ScaledHardSwish { scale, shift } => {
            let (scale, shift) = (F::from_f32(scale), F::from_f32(shift));
            map(values, |x| scale * f::hard_swish(x) + shift);
        }
        Activation::Clip { min, max } => {
            let (min, max) = (F::from_f32(min), F::from_f32(max));
            map(values, |x| f::clip(x, min, max));
        }
    }
}

#[inline(always)]
fn map<F: Float>(values: &mut [F], function: impl Fn(F) -> F) {
    for value in values {
        *value = function(*value);
    }
}
