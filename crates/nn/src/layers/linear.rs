//! Fully connected layers.

use millstream_core::{Activation, LayerName};

use super::describe::described;
use super::matrix::{FusedEpilogue, Matrix};
use super::{Description, Module};
use crate::{Init, Result, Tensor, Weights};

/// `x × weightᵀ + bias` over the last axis, as one Command.
///
/// Parameters: `weight` `[out_features, in_features]`, `bias` `[out_features]`. The weight is packed for
/// the device when the layer is made.
///
/// # Example
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::command::Activation;
/// use millstream::nn::{Linear, Module, Weights};
/// use millstream::{DType, Device, Tensor};
///
/// let device = Device::cpu()?;
/// let weight = Tensor::from_slice(&[1f32, 2.0, 3.0, -4.0], &[2, 2], &device)?;
/// let bias = Tensor::from_slice(&[10f32, 20.0], &[2], &device)?;
/// let tensors = [("fc.weight".to_owned(), weight), ("fc.bias".to_owned(), bias)];
/// let weights = Weights::from_tensors(tensors.into(), &device);
///
/// let layer = Linear::new(2, 2, true, &weights.child("fc"))?;
/// let input = Tensor::from_slice(&[1f32, 10.0], &[1, 2], &device)?;
/// assert_eq!(layer.forward(&input)?.to_vec::<f32>()?, [31.0, -17.0]);
/// let activated = layer.forward_activated(&input, Activation::Relu)?; // still one Command
/// assert_eq!(activated.to_vec::<f32>()?, [31.0, 0.0]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub struct Linear {
    matrix: Matrix,
    pub(super) bias: Option<Tensor>,
    name: LayerName,
}

impl Linear {
    /// Takes `weight`, and `bias` if there is to be one.
    ///
    /// # Errors
    ///
    /// Weights that are missing or of another shape, or no memory.
    pub fn new(
        in_features: usize,
        out_features: usize,
        bias: bool,
        weights: &Weights,
    ) -> Result<Self> {
        let init = Init::fan_in(in_features);
        let weight = weights.parameter("weight", &[out_features, in_features], init)?;
        let get = || weights.parameter_like("weight", "bias", &[out_features], init);
        let bias = bias.then(get).transpose()?;
        Self::from_tensors(&weight, bias, weights)
    }

    /// From tensors that came from `weights`, or were made of such.
    pub(crate) fn from_tensors(
        weight: &Tensor,
        bias: Option<Tensor>,
        weights: &Weights,
    ) -> Result<Self> {
        let bias = bias.map(Tensor::settle).transpose()?;
        let matrix = Matrix::new(weight, !weights.has_problems())?;
        Ok(Self { matrix, bias, name: weights.layer_name("Linear") })
    }

    /// What a layer of these sizes prints.
    pub(crate) fn description(inputs: usize, outputs: usize, bias: bool) -> Description {
        Description::new("Linear")
            .argument("in_features", inputs)
            .argument("out_features", outputs)
            .argument("bias", if bias { "True" } else { "False" })
    }

    pub(super) fn inputs(&self) -> usize {
        self.matrix.inputs
    }

    pub(super) fn outputs(&self) -> usize {
        self.matrix.outputs
    }

    /// The layer, plus a residual, and then an activation, as one Command.
    ///
    /// # Errors
    ///
    /// As for [`forward`](Module::forward), or a residual that does not broadcast to the result.
    pub fn forward_fused(
        &self,
        input: &Tensor,
        residual: Option<&Tensor>,
        activation: Activation,
    ) -> Result<Tensor> {
        let _layer = self.name.enter();
        let fused = FusedEpilogue { bias: self.bias.as_ref(), residual, activation };
        self.matrix.multiply(self.name, input, fused)
    }
}

impl Module for Linear {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.forward_fused(input, None, Activation::None)
    }

    fn forward_activated(&self, input: &Tensor, activation: Activation) -> Result<Tensor> {
        self.forward_fused(input, None, activation)
    }

    described!();
}
