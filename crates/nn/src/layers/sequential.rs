//! Modules one after another.

use millstream_core::Activation;

use super::Module;
use super::describe::described;
use crate::{Result, Tensor};

/// Modules applied one after another. An activation behind a layer that can apply it itself costs no
/// Command of its own.
///
/// # Example
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{GELU, LayerNorm, Linear, Module, Sequential, Weights};
/// use millstream::{DType, Device, Tensor};
///
/// let device = Device::cpu()?;
/// let weights = Weights::random(1, DType::F32, &device);
/// let model = Sequential::new()
///     .push(Linear::new(16, 32, true, &weights.child("0"))?)
///     .push(GELU::default())
///     .push(LayerNorm::new(&[32], Default::default(), &weights.child("2"))?);
/// let input = Tensor::randn(&[2, 16], 3, DType::F32, &device)?;
/// let before = device.stream()?.counters().commands;
/// assert_eq!(model.forward(&input)?.shape(), [2, 32]);
/// assert_eq!(device.stream()?.counters().commands - before, 2);
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Default)]
#[doc(alias = "ModuleList")]
pub struct Sequential {
    pub(super) modules: Vec<Box<dyn Module>>,
}

impl Sequential {
    /// No modules yet, which gives the input back.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a module at the end.
    pub fn push(mut self, module: impl Module + 'static) -> Self {
        self.modules.push(Box::new(module));
        self
    }

    /// How many modules there are.
    pub fn len(&self) -> usize {
        self.modules.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }
}

impl Module for Sequential {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.forward_activated(input, Activation::None)
    }

    fn forward_activated(&self, input: &Tensor, last: Activation) -> Result<Tensor> {
        // Tensors are not small: what a module gives stays where it is until the next has read it.
        let mut value: Option<Result<Tensor>> = None;
        let mut modules = self.modules.iter().peekable();
        while let Some(module) = modules.next() {
            let given = match &value {
                None => input,
                Some(Ok(value)) => value,
                Some(Err(_)) => break,
            };
            let next = modules.peek().map(|next| next.as_activation());
            let result = match next {
                Some(Some(activation)) => {
                    modules.next();
                    module.forward_activated(given, activation)
                }
                Some(None) => module.forward(given),
                None => return module.forward_activated(given, last),
            };
            value = Some(result);
        }
        value.unwrap_or_else(|| Ok(input.clone()))?.activate(last)
    }

    described!();
}
