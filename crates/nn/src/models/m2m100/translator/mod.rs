//! Text in, text out: a translation model with its tokenizer.

mod languages;
mod sentencepiece;
mod tokenizer;

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;

use millstream_core::Device;

pub use tokenizer::TranslationTokenizer;

use super::{GenerationOptions, M2M100};
use crate::Result;

/// A translation model of the M2M100 or NLLB type with its tokenizer. It takes and returns text.
///
/// Needs the feature `tokenizers`.
///
/// # Thread safety
///
/// Any number of threads may call it at once.
///
/// # Example
///
/// ```no_run
/// # millstream_nn::doctest!();
/// use millstream::Device;
/// use millstream::nn::models::m2m100::Translator;
///
/// let translator = Translator::open("m2m100_418M", &Device::cpu()?)?;
/// println!("{}", translator.translate("Life is like a box of chocolates.", "en", "fr")?);
/// # Ok::<(), millstream::Error>(())
/// ```
pub struct Translator {
    model: M2M100,
    tokenizer: TranslationTokenizer,
}

impl Translator {
    /// Loads the model of a folder ([`M2M100::open`]) and its tokenizer ([`TranslationTokenizer::open`]).
    ///
    /// # Blocks when
    ///
    /// Always: files are read and weights loaded.
    ///
    /// # Errors
    ///
    /// The errors of the two.
    pub fn open(folder: impl AsRef<Path>, device: &Device) -> Result<Self> {
        let folder = folder.as_ref();
        // The tokenizer comes first, because it fails sooner.
        let tokenizer = TranslationTokenizer::open(folder)?;
        Ok(Self::new(M2M100::open(folder, device)?, tokenizer))
    }

    /// A model with its tokenizer.
    pub fn new(model: M2M100, tokenizer: TranslationTokenizer) -> Self {
        Self { model, tokenizer }
    }

    /// The model.
    pub fn model(&self) -> &M2M100 {
        &self.model
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &TranslationTokenizer {
        &self.tokenizer
    }

    /// Translates a text with the default options of the model. Languages have the codes of the model, such as `"en"`
    /// or `"fra_Latn"`.
    ///
    /// # Blocks when
    ///
    /// Always, as for [`M2M100::generate`].
    ///
    /// # Errors
    ///
    /// A language that the model does not know, a text with more tokens than the model has positions, or no memory.
    pub fn translate(&self, text: &str, source: &str, target: &str) -> Result<String> {
        let options = self.model.generation_options();
        Ok(self.translate_all(&[text], source, target, options)?.swap_remove(0))
    }

    /// Translates several texts in one batch, with these options. The target language overrides that of the options.
    ///
    /// # Blocks when
    ///
    /// As for [`translate`](Self::translate).
    ///
    /// # Errors
    ///
    /// As for [`translate`](Self::translate), or options that the model does not support.
    pub fn translate_all(
        &self,
        texts: &[&str],
        source: &str,
        target: &str,
        options: &GenerationOptions,
    ) -> Result<Vec<String>> {
        let target = self.tokenizer.language(target)?;
        let options = GenerationOptions { forced_bos_token_id: Some(target), ..options.clone() };
        let inputs = texts.iter().map(|text| self.tokenizer.encode(text, source));
        let outputs = self.model.generate(&inputs.collect::<Result<Vec<_>>>()?, &options)?;
        outputs.iter().map(|tokens| self.tokenizer.decode(tokens)).collect()
    }
}

impl fmt::Debug for Translator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let languages = self.tokenizer.languages().len();
        write!(f, "Translator({languages} languages, {:?})", self.model.config())
    }
}
