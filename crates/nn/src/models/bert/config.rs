//! Settings of BERT-type models.

use std::path::Path;

use millstream_core::Activation;

use crate::Result;
use crate::models::config::Config;

/// The sizes of a BERT-type model, by the names of `config.json`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BertConfig {
    /// Words in the vocabulary.
    pub vocab_size: usize,
    /// The size of the vectors between layers.
    pub hidden_size: usize,
    /// The number of layers.
    pub num_hidden_layers: usize,
    /// Attention heads per layer.
    pub num_attention_heads: usize,
    /// The size between the two linear layers of a layer.
    pub intermediate_size: usize,
    /// The activation between them.
    pub hidden_act: Activation,
    /// The most tokens of an input.
    pub max_position_embeddings: usize,
    /// The number of token types: first and second sentence.
    pub type_vocab_size: usize,
    /// Added to the variance by the norms.
    pub layer_norm_eps: f32,
}

impl BertConfig {
    /// Reads a `config.json`.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or settings that are missing or that the model cannot have.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let config = Config::open(path.as_ref())?;
        config.only("model_type", "bert")?;
        config.only("position_embedding_type", "absolute")?;
        config.only("is_decoder", false)?;
        let hidden_size = config.size("hidden_size")?;
        Ok(Self {
            vocab_size: config.size("vocab_size")?,
            hidden_size,
            num_hidden_layers: config.layers("num_hidden_layers")?,
            num_attention_heads: config.heads("num_attention_heads", hidden_size)?,
            intermediate_size: config.size("intermediate_size")?,
            hidden_act: config.activation("hidden_act")?,
            max_position_embeddings: config.size("max_position_embeddings")?,
            type_vocab_size: config.size("type_vocab_size")?,
            layer_norm_eps: config.number("layer_norm_eps")?.unwrap_or(1e-12) as f32,
        })
    }
}
