//! Encoders of the BERT type, and sentence embeddings.

mod config;
mod layer;
mod sentence;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;

use millstream_core::{DType, Device, LayerName};

pub use config::BertConfig;
pub use sentence::SentenceEncoder;

use self::layer::{Shown, layer, options};
use crate::error::invalid;
use crate::layers::Stack;
use crate::weights::check_folder;
use crate::{
    AttentionMask, Description, Embedding, Init, LayerNorm, Module, Result, Tensor,
    TransformerEncoderLayer, Weights,
};

/// An encoder of the BERT type: it turns each token into a vector. A layer is seven Commands.
///
/// Parameters have the names of Transformers' `BertModel`. The pooler is left out.
///
/// # Example
///
/// ```no_run
/// # millstream_nn::doctest!();
/// use millstream::nn::models::bert::Bert;
/// use millstream::{Device, Tensor};
///
/// let device = Device::cpu()?;
/// let bert = Bert::open("all-MiniLM-L6-v2", &device)?;
/// let ids = Tensor::from_slice(&[101i64, 7592, 2088, 102], &[1, 4], &device)?;
/// let hidden = bert.forward(&ids, None, None)?;
/// assert_eq!(hidden.shape(), [1, 4, bert.config().hidden_size]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub struct Bert {
    config: BertConfig,
    words: Embedding,
    positions: Tensor,
    types: Embedding,
    /// Positions plus the first token type, which all tokens have in most calls.
    typed_positions: Tensor,
    norm: LayerNorm,
    layers: Stack<TransformerEncoderLayer>,
    embeddings_name: LayerName,
}

impl Bert {
    /// Loads `config.json` and the weights of a folder.
    ///
    /// # Blocks when
    ///
    /// Always: files are read and weights loaded.
    ///
    /// # Errors
    ///
    /// Files that cannot be read or are not valid, weights that do not fit the settings, or no memory.
    pub fn open(folder: impl AsRef<Path>, device: &Device) -> Result<Self> {
        let folder = folder.as_ref();
        check_folder(folder)?;
        let config = BertConfig::open(folder.join("config.json"))?;
        let weights = Weights::open(folder, device)?;
        // In models with a head, the encoder is below this name.
        let below = weights.child("bert");
        let weights = if below.names().is_empty() { weights } else { below };
        weights.load(|weights| Self::new(config, weights))
    }

    /// Takes the parameters.
    ///
    /// # Errors
    ///
    /// Weights that are missing or of another shape, or no memory.
    pub fn new(config: BertConfig, weights: &Weights) -> Result<Self> {
        let embeddings = weights.child("embeddings");
        let table = |name: &str, rows: usize| {
            let init = Init::Normal { deviation: 0.02 };
            Embedding::with_init(rows, config.hidden_size, init, &embeddings.child(name))
        };
        let positions = table("position_embeddings", config.max_position_embeddings)?;
        let positions = positions.weight().clone();
        let types = table("token_type_embeddings", config.type_vocab_size)?;
        let typed_positions = weights
            .derived(positions.shape(), || positions.add(&types.weight().narrow(0, 0, 1)?))?
            .settle()?;
        embeddings.ignore("position_ids");
        weights.ignore("pooler.dense.weight");
        weights.ignore("pooler.dense.bias");
        let layers = weights.child("encoder.layer");
        let layer = |index| layer(&config, &layers.child(index));
        Ok(Self {
            words: table("word_embeddings", config.vocab_size)?,
            norm: options(&config).norm(config.hidden_size, &embeddings.child("LayerNorm"))?,
            layers: Stack::new("bert", config.num_hidden_layers, None, layer)?,
            positions,
            types,
            typed_positions,
            embeddings_name: embeddings.layer_name("Bert"),
            config,
        })
    }

    /// The sizes of the model.
    pub fn config(&self) -> &BertConfig {
        &self.config
    }

    /// The device that the model is on.
    pub fn device(&self) -> Device {
        self.words.weight().device()
    }

    /// The element type of its computations.
    pub fn dtype(&self) -> DType {
        self.words.weight().dtype()
    }

    /// A vector for every token: `[batch, length, hidden_size]`.
    ///
    /// `ids` is `[batch, length]` of `i32` or `i64`. `seen` is `bool` of the same shape, false where an input is
    /// padded. `types` is like `ids`; without it, all types are 0.
    ///
    /// # Blocks when
    ///
    /// Recording does; see [`Stream::record`](millstream_core::Stream::record).
    ///
    /// # Errors
    ///
    /// Shapes or types that do not fit, more tokens than the model has positions, or no memory. A token outside of
    /// the vocabulary is reported by the call that waits for the result.
    pub fn forward(
        &self,
        ids: &Tensor,
        seen: Option<&Tensor>,
        types: Option<&Tensor>,
    ) -> Result<Tensor> {
        let &[batch, length] = ids.shape() else {
            let shape = ids.shape();
            return invalid(
                "bert",
                format!("ids of shape {shape:?}, but it takes [batch, length]"),
            );
        };
        let most = self.config.max_position_embeddings;
        if length > most {
            return invalid("bert", format!("{length} tokens, but the model has {most} positions"));
        }
        let fits = |tensor: &&Tensor| tensor.shape() != ids.shape();
        if let Some(other) = [seen, types].into_iter().flatten().find(fits) {
            let (ids, other) = (ids.shape(), other.shape());
            let reason = format!("a mask or types of shape {other:?}, but ids of shape {ids:?}");
            return invalid("bert", reason);
        }
        let sum = self.embed(ids, types, length)?;
        let seen = seen.map(|seen| seen.reshape(&[batch, 1, 1, length])).transpose()?;
        let mask = AttentionMask::of_seen(seen);
        let hidden = self.norm.forward_in_place(sum)?;
        self.layers.forward(hidden, |layer, value| layer.forward_masked(value, &mask))
    }

    fn embed(&self, ids: &Tensor, types: Option<&Tensor>, length: usize) -> Result<Tensor> {
        let _layer = self.embeddings_name.enter();
        let words = self.words.forward(ids)?;
        match types {
            None => words.add(&self.typed_positions.narrow(0, 0, length)?),
            Some(types) => {
                let typed = words.add(&self.types.forward(types)?)?;
                typed.add(&self.positions.narrow(0, 0, length)?)
            }
        }
    }
}

impl fmt::Debug for Bert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let positions = Embedding::description(&self.positions);
        let embeddings = Description::new("BertEmbeddings")
            .child("word_embeddings", &self.words)
            .child("position_embeddings", &positions)
            .child("token_type_embeddings", &self.types)
            .child("LayerNorm", &self.norm);
        let layers: Vec<Shown> = self.layers.layers().iter().map(Shown).collect();
        let encoder = Description::new("BertEncoder").list("layer", &layers);
        let description = Description::new("BertModel").child("embeddings", &embeddings);
        description.child("encoder", &encoder).write(f)
    }
}
