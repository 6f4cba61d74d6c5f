//! Activations by name, as layers are given them.

use millstream_core::{Activation, UnaryOp};

use super::Tensor;
use crate::Result;

impl Tensor {
    /// Applies an activation to each element.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::command::Activation;
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[-1.0f32, 2.0], &Device::cpu()?)?;
    /// assert_eq!(a.activate(Activation::Relu)?.to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A type that is not floating point, or no memory.
    pub fn activate(&self, activation: Activation) -> Result<Self> {
        let op = match activation {
            Activation::None => return Ok(self.clone()),
            Activation::Clip { min, max } => return self.clamp(Some(min), Some(max)),
            Activation::ScaledHardSwish { scale, shift } => {
                return self.unary(UnaryOp::HardSwish)?.mul(scale)?.add(shift);
            }
            Activation::Relu => UnaryOp::Relu,
            Activation::Gelu => UnaryOp::Gelu,
            Activation::GeluTanh => UnaryOp::GeluTanh,
            Activation::Silu => UnaryOp::Silu,
            Activation::Sigmoid => UnaryOp::Sigmoid,
            Activation::Tanh => UnaryOp::Tanh,
            Activation::LeakyRelu { slope } => UnaryOp::LeakyRelu { slope },
            Activation::HardSwish => UnaryOp::HardSwish,
        };
        self.unary(op)
    }
}
