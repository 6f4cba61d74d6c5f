//! Models of folders, as Transformers saves them.

use std::path::Path;

use millstream::Tensor;
use millstream::nn::models::bert::{Bert, BertConfig};
use millstream::nn::{Module, Result, inspect};

use super::{Source, Workload};

/// Tokens of an input, or as many as the model takes.
const TOKENS: usize = 128;

/// The model of a folder, whose settings and weights file are there. Kept for the life of the program, as the built-in
/// ones are.
///
/// # Errors
///
/// Files that cannot be read or are not valid, or a model of another type than BERT.
pub(crate) fn of_folder(folder: &Path) -> Result<&'static Workload> {
    let config = BertConfig::open(folder.join("config.json"))?;
    let tensors = inspect(folder)?;
    let length = TOKENS.min(config.max_position_embeddings);
    let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned();
    let about = format!(
        "{}: {} layers of {}, {} tensors, on (1, {length}) tokens",
        folder.display(),
        config.num_hidden_layers,
        config.hidden_size,
        tensors.len()
    );
    let source =
        Source::Bert { folder: leak(folder.display().to_string()), vocabulary: config.vocab_size };
    let (name, about, input) = (leak(name), leak(about), Vec::leak(vec![1, length]));
    Ok(Box::leak(Box::new(Workload { name, about, input, source })))
}

fn leak(text: String) -> &'static str {
    String::leak(text)
}

/// Tokens that a seed makes.
pub(super) fn ids(seed: usize, vocabulary: usize, count: usize) -> Vec<i64> {
    // Any numbers that differ will do.
    let mut state = seed as u64 + 1;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as usize % vocabulary.max(1)) as i64
    };
    (0..count).map(|_| next()).collect()
}

/// An encoder from tokens alone.
pub(super) struct Tokens(pub Bert);

impl Module for Tokens {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.0.forward(input, None, None)
    }
}

#[cfg(test)]
mod tests;
