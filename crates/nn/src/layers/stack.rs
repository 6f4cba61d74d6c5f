//! Layers of one kind, one after another.

use super::norm::LayerNorm;
use super::{Description, Module};
use crate::error::invalid;
use crate::{Result, Tensor};

/// The most layers of a stack. It is far above any model, and a list of them fits in memory.
pub(crate) const MAX_LAYERS: usize = 1 << 14;

/// Layers, and optionally a norm after them: the encoders and decoders of all models.
pub(crate) struct Stack<L> {
    layers: Vec<L>,
    norm: Option<LayerNorm>,
}

impl<L> Stack<L> {
    /// Makes `count` layers, each from its index.
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

    /// Applies all layers one after another, and the norm. The input of a layer is dropped before the next one.
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

    /// What comes after the last layer: the norm, if there is one.
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
