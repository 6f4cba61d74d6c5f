//! Layers of one kind on top of each other.

use super::norm::LayerNorm;
use super::{Description, Module};
use crate::error::invalid;
use crate::{Result, Tensor};

/// Layers of one stack: far above any model, and few enough that a list of them has room.
pub(crate) const MAX_LAYERS: usize = 1 << 14;

/// Layers, and a norm behind them if wanted: what encoders and decoders of all models are.
pub(crate) struct Stack<L> {
    layers: Vec<L>,
    norm: Option<LayerNorm>,
}

impl<L> Stack<L> {
    /// Makes the layers by their numbers.
    pub fn new(
        op: &'static str,
        count: usize,
        norm: Option<LayerNorm>,
        layer: impl FnMut(usize) -> Result<L>,
    ) -> Result<Self> {
        if count > MAX_LAYERS {
            return invalid(op, format!("{count} layers, above {MAX_LAYERS}"));
        }
        Ok(Self { layers: (0..count).map(layer).collect::<Result<_>>()?, norm })
    }

    pub fn layers(&self) -> &[L] {
        &self.layers
    }

    /// All layers one after another, and the norm. What a layer has read is given back before the next begins.
    pub fn forward(
        &self,
        mut value: Tensor,
        mut apply: impl FnMut(&L, &Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        for layer in &self.layers {
            value = apply(layer, &value)?;
        }
        self.finish(value)
    }

    /// What comes behind the last layer.
    pub fn finish(&self, value: Tensor) -> Result<Tensor> {
        match &self.norm {
            Some(norm) => norm.forward(&value),
            None => Ok(value),
        }
    }

    pub fn norm(&self) -> Option<&LayerNorm> {
        self.norm.as_ref()
    }
}

impl<L: std::fmt::Debug> Stack<L> {
    /// As PyTorch's stacks print.
    pub fn describe(&self, kind: &'static str) -> Description {
        let description = Description::new(kind).list("layers", &self.layers);
        match &self.norm {
            Some(norm) => description.child("norm", norm),
            None => description,
        }
    }
}
