//! Settings of M2M100-type models.

use std::path::Path;

use millstream_core::Activation;

use crate::Result;
use crate::models::config::Config;

/// The sizes of an M2M100-type model, by the names of `config.json`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct M2M100Config {
    /// Tokens in the vocabulary.
    pub vocab_size: usize,
    /// The size of the vectors between layers.
    pub d_model: usize,
    /// The number of encoder layers.
    pub encoder_layers: usize,
    /// Attention heads per encoder layer.
    pub encoder_attention_heads: usize,
    /// The size between the two linear layers of an encoder layer.
    pub encoder_ffn_dim: usize,
    /// The number of decoder layers.
    pub decoder_layers: usize,
    /// Attention heads per decoder layer.
    pub decoder_attention_heads: usize,
    /// The size between the two linear layers of a decoder layer.
    pub decoder_ffn_dim: usize,
    /// The activation between the linear layers.
    pub activation_function: Activation,
    /// The most tokens of an input or an output.
    pub max_position_embeddings: usize,
    /// Whether embeddings are multiplied by `√d_model`.
    pub scale_embedding: bool,
    /// The token that pads inputs.
    pub pad_token_id: u32,
}

impl M2M100Config {
    /// Reads a `config.json`.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or settings that are missing or that the model cannot have.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let config = Config::open(path.as_ref())?;
        config.only("model_type", "m2m_100")?;
        config.only("tie_word_embeddings", true)?;
        let d_model = config.size("d_model")?;
        let vocab_size = config.size("vocab_size")?;
        let pad_token_id = config.token("pad_token_id")?.unwrap_or(1);
        if pad_token_id as usize >= vocab_size {
            return Err(config.error(format!("\"pad_token_id\" is {pad_token_id}")));
        }
        Ok(Self {
            vocab_size,
            d_model,
            encoder_layers: config.layers("encoder_layers")?,
            encoder_attention_heads: config.heads("encoder_attention_heads", d_model)?,
            encoder_ffn_dim: config.size("encoder_ffn_dim")?,
            decoder_layers: config.layers("decoder_layers")?,
            decoder_attention_heads: config.heads("decoder_attention_heads", d_model)?,
            decoder_ffn_dim: config.size("decoder_ffn_dim")?,
            activation_function: config.activation("activation_function")?,
            max_position_embeddings: config.size("max_position_embeddings")?,
            scale_embedding: config.bool("scale_embedding", true)?,
            pad_token_id,
        })
    }
}
