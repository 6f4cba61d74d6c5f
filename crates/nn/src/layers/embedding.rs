//! Tables of vectors.

use super::Module;
use crate::{Init, Result, Tensor, Weights};

/// Rows of a table by their numbers. Parameter: `weight` `[num_embeddings, embedding_dim]`.
pub struct Embedding {
    weight: Tensor,
}

impl Embedding {
    /// Takes `weight`.
    ///
    /// # Errors
    ///
    /// Weights that are missing or of another shape, or no memory.
    pub fn new(num_embeddings: usize, embedding_dim: usize, weights: &Weights) -> Result<Self> {
        let init = Init::Normal { deviation: 1.0 };
        Ok(Self { weight: weights.get("weight", &[num_embeddings, embedding_dim], init)? })
    }

    /// The table.
    pub fn weight(&self) -> &Tensor {
        &self.weight
    }
}

impl Module for Embedding {
    /// Numbers of rows, `i32` or `i64`, of any shape.
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.weight.embedding(input)
    }
}
