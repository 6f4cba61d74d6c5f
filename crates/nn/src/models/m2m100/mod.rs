//! Translation models of the M2M100 and NLLB type.

mod beams;
mod config;
mod decoding;
mod embeddings;
mod generate;
mod layers;
mod options;
#[cfg(feature = "tokenizers")]
mod translator;

use std::fmt;
use std::path::Path;

use millstream_core::Device;

pub use config::M2M100Config;
pub use options::{EarlyStopping, GenerationOptions};
#[cfg(feature = "tokenizers")]
pub use translator::{TranslationTokenizer, Translator};

use self::embeddings::Embeddings;
use self::layers::{ShownDecoder, ShownEncoder, decoder_layer, encoder_layer, norm};
use crate::bytes::collected;
use crate::error::invalid;
use crate::layers::Stack;
use crate::weights::check_folder;
use crate::{
    AttentionMask, Description, Init, Linear, Result, Tensor, TransformerDecoderLayer,
    TransformerEncoderLayer, Weights,
};

/// An encoder and a decoder of the M2M100 type. NLLB models have the same type.
///
/// Parameters have the names of Transformers' `M2M100ForConditionalGeneration`. Inputs and outputs are tokens; with
/// the feature `tokenizers`, `Translator` takes and returns text. The table of tokens is stored twice: for lookups,
/// and packed for the last product.
///
/// # Thread safety
///
/// Any number of threads may call it at once, and each call gets the bits that it would get alone.
///
/// # Example
///
/// ```no_run
/// # millstream_nn::doctest!();
/// use millstream::nn::models::m2m100::M2M100;
/// use millstream::Device;
///
/// let model = M2M100::open("m2m100_418M", &Device::cpu()?)?;
/// let mut options = model.generation_options().clone();
/// options.forced_bos_token_id = Some(128028); // French
/// options.num_beams = 5;
/// let inputs = [vec![128022, 2, 9, 71, 2], vec![128022, 30, 2]];
/// println!("{:?}", model.generate(&inputs, &options)?);
/// # Ok::<(), millstream::Error>(())
/// ```
pub struct M2M100 {
    config: M2M100Config,
    options: GenerationOptions,
    embeddings: Embeddings,
    encoder: Stack<TransformerEncoderLayer>,
    decoder: Stack<TransformerDecoderLayer>,
    head: Linear,
}

/// What the decoder needs to know of the inputs.
struct Memory {
    batch: usize,
    /// Keys and values of the inputs, side by side, for each layer.
    layers: Vec<Tensor>,
    /// Hides the padding of the inputs.
    mask: AttentionMask,
}

impl M2M100 {
    /// Loads `config.json`, `generation_config.json` and the weights of a folder.
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
        let config = M2M100Config::open(folder.join("config.json"))?;
        let options = GenerationOptions::open(folder)?;
        Weights::open(folder, device)?.load(|weights| Self::new(config, options, weights))
    }

    /// Takes the parameters, and the default options of calls.
    ///
    /// # Errors
    ///
    /// Weights that are missing or of another shape, or no memory.
    pub fn new(
        config: M2M100Config,
        options: GenerationOptions,
        weights: &Weights,
    ) -> Result<Self> {
        let (encoder, decoder) = (weights.child("model.encoder"), weights.child("model.decoder"));
        for (part, name) in [&encoder, &decoder].into_iter().flat_map(|part| {
            // Some files have copies of the table, and tables that are computed from sizes.
            ["embed_tokens.weight", "embed_positions.weights"].map(|name| (part, name))
        }) {
            part.ignore(name);
        }
        weights.ignore("lm_head.weight");
        let (size, init) = (config.d_model, Init::Normal { deviation: 0.02 });
        let table = weights.parameter("model.shared.weight", &[config.vocab_size, size], init)?;
        let (encoders, decoders) = (encoder.child("layers"), decoder.child("layers"));
        let encoder_layer = |index| encoder_layer(&config, &encoders.child(index));
        let decoder_layer = |index| decoder_layer(&config, &decoders.child(index));
        let [encoder_norm, decoder_norm] = [&encoder, &decoder].map(|part| norm(size, part));
        Ok(Self {
            embeddings: Embeddings::new(&config, &table, &weights.child("model.shared"))?,
            encoder: Stack::new(
                "m2m100",
                config.encoder_layers,
                Some(encoder_norm?),
                encoder_layer,
            )?,
            decoder: Stack::new(
                "m2m100",
                config.decoder_layers,
                Some(decoder_norm?),
                decoder_layer,
            )?,
            head: Linear::from_tensors(&table, None, &weights.child("lm_head"))?,
            config,
            options,
        })
    }

    /// The sizes of the model.
    pub fn config(&self) -> &M2M100Config {
        &self.config
    }

    /// The default options of the model.
    pub fn generation_options(&self) -> &GenerationOptions {
        &self.options
    }

    /// The outputs for inputs of any lengths. Each output goes from `decoder_start_token_id` to the token that ends
    /// it.
    ///
    /// Inputs may contain `pad_token_id`, which is not seen. Shorter inputs are padded with it.
    ///
    /// # Blocks when
    ///
    /// Always: each token is read before the next one is computed. From async code, call it on a thread that may
    /// block.
    ///
    /// # Errors
    ///
    /// Inputs that are empty, too long or not in the vocabulary, options that the model does not support, or no
    /// memory.
    pub fn generate<I: AsRef<[u32]>>(
        &self,
        inputs: &[I],
        options: &GenerationOptions,
    ) -> Result<Vec<Vec<u32>>> {
        options.check(&self.config)?;
        if inputs.is_empty() {
            return Ok(Vec::new());
        }
        let memory = self.encode("generate", inputs)?;
        match options.num_beams {
            1 => generate::greedy(self, memory, options),
            _ => generate::beam_search(self, memory, options),
        }
    }

    /// For given outputs, one per input: the scores of all tokens that may come after each token, `[inputs, length,
    /// vocab_size]`. Scores after the end of a shorter output have no meaning.
    ///
    /// # Blocks when
    ///
    /// Recording does; see [`Stream::record`](millstream_core::Stream::record).
    ///
    /// # Errors
    ///
    /// As for [`generate`](Self::generate), or a number of outputs that is not the number of inputs.
    pub fn logits<I: AsRef<[u32]>, O: AsRef<[u32]>>(
        &self,
        inputs: &[I],
        outputs: &[O],
    ) -> Result<Tensor> {
        if inputs.len() != outputs.len() || inputs.is_empty() {
            let (inputs, outputs) = (inputs.len(), outputs.len());
            return invalid("logits", format!("{inputs} inputs with {outputs} outputs"));
        }
        let memory = self.encode("logits", inputs)?;
        let mut hidden = self.embeddings.inputs(&self.embeddings.pad("logits", outputs)?)?;
        let causal = AttentionMask::causal();
        for (layer, kept) in self.decoder.layers().iter().zip(&memory.layers) {
            hidden = layer.forward_remembered(&hidden, None, &causal, kept, &memory.mask)?;
        }
        self.logits_of(&hidden)
    }

    fn encode<I: AsRef<[u32]>>(&self, op: &'static str, inputs: &[I]) -> Result<Memory> {
        let padded = self.embeddings.pad(op, inputs)?;
        let [batch, length] = padded.shape;
        let is_seen = |&token: &u32| token != self.config.pad_token_id;
        let seen = collected(padded.ids.len(), padded.ids.iter().map(is_seen))?;
        let seen = seen
            .contains(&false)
            .then(|| Tensor::from_slice(&seen, &[batch, 1, 1, length], &self.embeddings.device()))
            .transpose()?;
        let mask = AttentionMask::of_seen(seen);
        let hidden = self.embeddings.inputs(&padded)?;
        let encoded =
            self.encoder.forward(hidden, |layer, value| layer.forward_masked(value, &mask))?;
        let layers = self.decoder.layers().iter().map(|layer| layer.remember(&encoded));
        Ok(Memory { batch, layers: layers.collect::<Result<_>>()?, mask })
    }
}

impl fmt::Debug for M2M100 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encoder: Vec<ShownEncoder> = self.encoder.layers().iter().map(ShownEncoder).collect();
        let decoder: Vec<ShownDecoder> = self.decoder.layers().iter().map(ShownDecoder).collect();
        let places = Description::new("M2M100SinusoidalPositionalEmbedding");
        let side = |kind| Description::new(kind).child("embed_positions", &places);
        let behind = |side: Description, norm: Option<&crate::LayerNorm>| match norm {
            Some(norm) => side.child("layer_norm", norm),
            None => side,
        };
        let encoder = side("M2M100Encoder").list("layers", &encoder);
        let decoder = side("M2M100Decoder").list("layers", &decoder);
        let model = Description::new("M2M100Model")
            .child("shared", &self.embeddings.describe())
            .child("encoder", &behind(encoder, self.encoder.norm()))
            .child("decoder", &behind(decoder, self.decoder.norm()));
        let description = Description::new("M2M100ForConditionalGeneration");
        description.child("model", &model).child("lm_head", &self.head).write(f)
    }
}
