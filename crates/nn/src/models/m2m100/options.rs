//! Options of decoding.

use std::path::Path;

use serde_json::Value;

use super::M2M100Config;
use crate::Result;
use crate::error::invalid;
use crate::models::config::Config;

const MAX_BEAMS: usize = 64;

/// Settings that would change the output, with the only value that is supported: the one that does not.
const NEUTRAL: [(&str, f64); 9] = [
    ("num_beam_groups", 1.0),
    ("no_repeat_ngram_size", 0.0),
    ("encoder_no_repeat_ngram_size", 0.0),
    ("repetition_penalty", 1.0),
    ("encoder_repetition_penalty", 1.0),
    ("diversity_penalty", 0.0),
    ("min_length", 0.0),
    ("min_new_tokens", 0.0),
    ("num_return_sequences", 1.0),
];

/// Switches that would change the output unless they are off.
const OFF: [&str; 2] = ["do_sample", "renormalize_logits"];

/// Settings that would change the output unless they are absent or null.
const UNSUPPORTED: [&str; 7] = [
    "bad_words_ids",
    "force_words_ids",
    "constraints",
    "suppress_tokens",
    "begin_suppress_tokens",
    "exponential_decay_length_penalty",
    "sequence_bias",
];

/// When a beam search ends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum EarlyStopping {
    /// When no running beam would be better than the worst finished one if it ended now (`false` in Transformers).
    #[default]
    WhenUnlikelyToImprove,
    /// When there are as many finished beams as beams (`true`).
    WhenFull,
    /// When no running beam can become better than the worst finished one (`"never"`).
    WhenImpossibleToImprove,
}

/// Options of decoding, with the names, meanings and defaults of Transformers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GenerationOptions {
    /// The most tokens of an output, counted from `decoder_start_token_id` on.
    pub max_length: usize,
    /// The number of beams. With 1, the most likely token is taken at each step.
    pub num_beams: usize,
    /// The score of a beam is divided by its length to the power of this.
    pub length_penalty: f64,
    /// When a beam search ends.
    pub early_stopping: EarlyStopping,
    /// The first token of every output.
    pub decoder_start_token_id: u32,
    /// The token after it: for translation, the language to translate to.
    pub forced_bos_token_id: Option<u32>,
    /// The token that ends an output which reaches `max_length`.
    pub forced_eos_token_id: Option<u32>,
    /// The tokens that end an output.
    pub eos_token_ids: Vec<u32>,
}

impl Default for GenerationOptions {
    fn default() -> Self {
        Self {
            max_length: 20,
            num_beams: 1,
            length_penalty: 1.0,
            early_stopping: EarlyStopping::default(),
            decoder_start_token_id: 2,
            forced_bos_token_id: None,
            forced_eos_token_id: None,
            eos_token_ids: vec![2],
        }
    }
}

impl GenerationOptions {
    /// Reads the `generation_config.json` of a folder, or its `config.json` if there is none.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let own = folder.join("generation_config.json");
        let config = match own.exists() {
            true => Config::open(&own)?,
            false => Config::open(&folder.join("config.json"))?,
        };
        for (key, neutral) in NEUTRAL {
            config.only(key, neutral)?;
        }
        for key in OFF {
            config.only(key, false)?;
        }
        for key in UNSUPPORTED {
            config.only(key, Value::Null)?;
        }
        let default = Self::default();
        let size = |key, default| match config.value(key) {
            Some(_) => config.size(key),
            None => Ok(default),
        };
        // As in Transformers, it overrides `max_length` and does not count the first token.
        let max_length = match config.value("max_new_tokens") {
            Some(_) => config.size("max_new_tokens")?.saturating_add(1),
            None => size("max_length", default.max_length)?,
        };
        let early_stopping = config.read("early_stopping", |value| match value {
            Value::Bool(false) => Some(EarlyStopping::WhenUnlikelyToImprove),
            Value::Bool(true) => Some(EarlyStopping::WhenFull),
            Value::String(never) if never == "never" => {
                Some(EarlyStopping::WhenImpossibleToImprove)
            }
            _ => None,
        })?;
        let start = config.token("decoder_start_token_id")?;
        Ok(Self {
            max_length,
            num_beams: size("num_beams", default.num_beams)?,
            length_penalty: config.number("length_penalty")?.unwrap_or(default.length_penalty),
            early_stopping: early_stopping.unwrap_or_default(),
            decoder_start_token_id: start.unwrap_or(default.decoder_start_token_id),
            forced_bos_token_id: config.token("forced_bos_token_id")?,
            forced_eos_token_id: config.token("forced_eos_token_id")?,
            eos_token_ids: config.tokens("eos_token_id")?.unwrap_or(default.eos_token_ids),
        })
    }

    /// Refuses options that the model does not support.
    pub(super) fn check(&self, config: &M2M100Config) -> Result<()> {
        let most = config.max_position_embeddings;
        if !(2..=most).contains(&self.max_length) {
            let length = self.max_length;
            return invalid("generate", format!("max_length {length}, must be 2 to {most}"));
        }
        // There must be twice as many candidates as beams, and one more for every further end token.
        let kinds = self.eos_token_ids.len().saturating_add(1).max(2);
        if !(1..=MAX_BEAMS).contains(&self.num_beams) || kinds > config.vocab_size {
            let (beams, ends) = (self.num_beams, self.eos_token_ids.len());
            return invalid("generate", format!("{beams} beams and {ends} tokens that end them"));
        }
        if !self.length_penalty.is_finite() {
            return invalid("generate", format!("length_penalty {}", self.length_penalty));
        }
        let forced = self.forced_bos_token_id.into_iter().chain(self.forced_eos_token_id);
        let mut tokens = forced.chain([self.decoder_start_token_id]);
        match tokens.find(|&token| token as usize >= config.vocab_size) {
            Some(token) => invalid("generate", format!("token {token} is not in the vocabulary")),
            None => Ok(()),
        }
    }

    /// The token that must come at a position, if any.
    pub(super) fn forced(&self, place: usize) -> Option<u32> {
        match place {
            _ if place + 1 == self.max_length && self.forced_eos_token_id.is_some() => {
                self.forced_eos_token_id
            }
            1 => self.forced_bos_token_id,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
