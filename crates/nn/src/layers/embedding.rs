//! Tables of vectors.

use millstream_core::{DType, LayerName};

use super::check::misfit;
use super::describe::described;
use super::{Description, Module};
use crate::{Init, Result, Tensor, Weights};

/// Looks up rows of a table by their index. Parameter: `weight` `[num_embeddings, embedding_dim]`.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{Embedding, Module, Weights};
/// use millstream::{DType, Device, Tensor};
///
/// let device = Device::cpu()?;
/// let table = Embedding::new(1000, 64, &Weights::random(1, DType::F32, &device))?;
/// let ids = Tensor::new(&[[1i64, 5, 999]], &device)?;
/// assert_eq!(table.forward(&ids)?.shape(), [1, 3, 64]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub struct Embedding {
    weight: Tensor,
    name: LayerName,
}

impl Embedding {
    /// Takes `weight` from the weights.
    ///
    /// # Errors
    ///
    /// Weights that are missing or of another shape, or no memory.
    pub fn new(num_embeddings: usize, embedding_dim: usize, weights: &Weights) -> Result<Self> {
        let init = Init::Normal { deviation: 1.0 };
        Self::with_init(num_embeddings, embedding_dim, init, weights)
    }

    pub(crate) fn with_init(
        num_embeddings: usize,
        embedding_dim: usize,
        init: Init,
        weights: &Weights,
    ) -> Result<Self> {
        let weight =
            weights.parameter("weight", &[num_embeddings, embedding_dim], init)?.settle()?;
        Ok(Self { weight, name: weights.layer_name("Embedding") })
    }

    /// How the layer of a table prints.
    pub(crate) fn description(table: &Tensor) -> Description {
        let sizes = table.shape().iter();
        sizes.fold(Description::new("Embedding"), |made, size| made.value(size))
    }

    /// The table.
    pub fn weight(&self) -> &Tensor {
        &self.weight
    }
}

impl Module for Embedding {
    /// The input has the indices of rows, `i32` or `i64`, in any shape.
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let _layer = self.name.enter();
        if !matches!(input.dtype(), DType::I32 | DType::I64) {
            return misfit(self.name.as_str(), input, "takes indices of rows, i32 or i64");
        }
        self.weight.embedding(input)
    }

    described!();
}
