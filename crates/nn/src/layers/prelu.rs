//! An activation with parameters.

use millstream_core::{BinaryOp, LayerName};

use super::Module;
use super::check::{misfit, wants_dtype};
use super::describe::described;
use crate::{Init, Result, Tensor, Weights};

/// `x`, or `weight · x` below zero, with one weight or one for each channel. Parameter: `weight`
/// `[num_parameters]`.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{Module, PReLU, Weights};
/// use millstream::{DType, Device, Tensor};
///
/// let device = Device::cpu()?;
/// let layer = PReLU::new(1, &Weights::random(1, DType::F32, &device))?; // a slope of 0.25 unless trained
/// let input = Tensor::new(&[-1.0f32, 2.0], &device)?;
/// assert_eq!(layer.forward(&input)?.to_vec::<f32>()?, [-0.25, 2.0]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub struct PReLU {
    pub(super) weight: Tensor,
    name: LayerName,
}

impl PReLU {
    /// Takes `weight` from the weights.
    ///
    /// # Errors
    ///
    /// A weight that is missing or of another shape, or no memory.
    pub fn new(num_parameters: usize, weights: &Weights) -> Result<Self> {
        let weight =
            weights.parameter("weight", &[num_parameters], Init::Constant(0.25))?.settle()?;
        Ok(Self { weight, name: weights.layer_name("PReLU") })
    }
}

impl Module for PReLU {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let _layer = self.name.enter();
        let (layer, slopes) = (self.name.as_str(), self.weight.elements());
        if slopes != 1 && input.shape().get(1) != Some(&slopes) {
            return misfit(layer, input, &format!("takes [batch, {slopes}, …]"));
        }
        wants_dtype(layer, input, self.weight.dtype())?;
        let mut slope = self.weight.clone();
        // Channels are the second axis; all later axes have the slope of their channel.
        for _ in 2..input.rank() {
            slope = slope.unsqueeze(-1)?;
        }
        input.binary(BinaryOp::Prelu, &slope)
    }

    described!();
}
