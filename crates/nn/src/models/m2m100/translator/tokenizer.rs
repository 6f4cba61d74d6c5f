//! The tokenizer of translation models.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use serde_json::Value;
use tokenizers::Tokenizer;

use super::{languages, sentencepiece};
use crate::error::invalid;
use crate::models::config::{self, Config, invalid as bad_file};
use crate::{Error, Result};

/// The token that ends a text, and the token for characters that are not in the vocabulary.
const END: &str = "</s>";
const UNKNOWN: &str = "<unk>";

/// The tokenizer of an M2M100 or NLLB model.
///
/// It gives the same tokens as Transformers: the language, the tokens of the text, and the end.
///
/// # Thread safety
///
/// It does not change; any number of threads may use it at once.
pub struct TranslationTokenizer {
    tokenizer: Tokenizer,
    /// The tokens of `vocab.json`, if ids are not those of the tokenizer itself.
    vocabulary: Option<Vocabulary>,
    /// The token of each language, by its code.
    languages: BTreeMap<String, u32>,
    end: u32,
}

struct Vocabulary {
    numbers: HashMap<String, u32>,
    /// `None` if an id has no text.
    texts: Vec<Option<String>>,
    unknown: u32,
}

impl TranslationTokenizer {
    /// Reads the `tokenizer.json` of a folder; if there is none, its `sentencepiece.bpe.model` and `vocab.json`.
    ///
    /// # Errors
    ///
    /// Files that cannot be read, are not valid or are above 64 MiB, or a tokenizer without languages.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        match folder.join("tokenizer.json") {
            path if path.exists() => Self::from_tokenizer_json(&path),
            _ => Self::from_sentencepiece(folder),
        }
    }

    fn from_tokenizer_json(path: &Path) -> Result<Self> {
        let file = config::read_bytes(path)?;
        let tokenizer = guarded(|| Tokenizer::from_bytes(file));
        let tokenizer = tokenizer.map_err(|reason| bad_file(path.display(), reason))?;
        let added = tokenizer.get_added_tokens_decoder();
        let languages: BTreeMap<_, _> = added
            .iter()
            .filter_map(|(&number, token)| Some((languages::code(&token.content)?, number)))
            .collect();
        if languages.is_empty() {
            let reason = "it has no tokens of languages, such as \"__en__\" or \"eng_Latn\"";
            return Err(bad_file(path.display(), reason));
        }
        let missing = || bad_file(path.display(), format!("it has no token {END:?}"));
        let end = tokenizer.token_to_id(END).ok_or_else(missing)?;
        Ok(Self { tokenizer, vocabulary: None, languages, end })
    }

    fn from_sentencepiece(folder: &Path) -> Result<Self> {
        let path = folder.join("sentencepiece.bpe.model");
        let file = config::read_bytes(&path)?;
        let failed = |reason: String| bad_file(path.display(), reason);
        let model = sentencepiece::Model::parse(&file).map_err(|reason| failed(reason.into()))?;
        let tokenizer = guarded(|| model.into_tokenizer(UNKNOWN)).map_err(failed)?;

        let path = folder.join("vocab.json");
        let failed = |reason: &str| bad_file(path.display(), reason);
        let Value::Object(entries) = config::read(&path)? else {
            return Err(failed("it is not an object"));
        };
        let first_language = u32::try_from(entries.len()).map_err(|_| failed("it is too long"))?;
        let mut numbers = HashMap::with_capacity(entries.len());
        let mut texts = vec![None; entries.len()];
        for (text, number) in entries {
            let number = number.as_u64().filter(|&number| number < u64::from(first_language));
            let number = number.ok_or_else(|| failed("its numbers are not 0, 1, 2 and so on"))?;
            let is_text = !(text.starts_with('<') && text.ends_with('>'));
            texts[number as usize] = is_text.then(|| text.clone());
            numbers.insert(text, number as u32);
        }
        let special = |text: &str| {
            numbers.get(text).copied().ok_or_else(|| failed("it has no </s> or <unk>"))
        };
        let (end, unknown) = (special(END)?, special(UNKNOWN)?);

        let settings = Config::open_optional(&folder.join("tokenizer_config.json"))?;
        let set = settings.text("language_codes")?.unwrap_or_else(|| "m2m100".into());
        let codes = languages::set(&set).ok_or_else(|| {
            settings.error(format!("\"language_codes\" is {set:?}, which is not known"))
        })?;
        let languages = codes.iter().map(|&code| code.to_owned()).zip(first_language..).collect();
        let vocabulary = Some(Vocabulary { numbers, texts, unknown });
        Ok(Self { tokenizer, vocabulary, languages, end })
    }

    /// The codes of the languages, in alphabetical order.
    pub fn languages(&self) -> Vec<&str> {
        self.languages.keys().map(String::as_str).collect()
    }

    /// The token of a language, which comes before a text of that language.
    ///
    /// # Errors
    ///
    /// A language that the model does not know.
    pub fn language(&self, code: &str) -> Result<u32> {
        self.languages.get(code).copied().map_or_else(
            || {
                let known = self.languages().join(", ");
                invalid("translate", format!("there is no language {code:?}; there are {known}"))
            },
            Ok,
        )
    }

    /// The tokens of a text in a language, as the model takes them.
    ///
    /// # Errors
    ///
    /// A language that the model does not know.
    pub fn encode(&self, text: &str, language: &str) -> Result<Vec<u32>> {
        let language = self.language(language)?;
        let encoding = guarded(|| self.tokenizer.encode(text, false)).map_err(failed)?;
        let mut tokens = vec![language];
        match &self.vocabulary {
            None => tokens.extend_from_slice(encoding.get_ids()),
            Some(Vocabulary { numbers, unknown, .. }) => tokens.extend(
                encoding.get_tokens().iter().map(|token| numbers.get(token).unwrap_or(unknown)),
            ),
        }
        tokens.push(self.end);
        Ok(tokens)
    }

    /// The text of tokens. Tokens that are not text, such as languages and ends, are left out.
    ///
    /// # Errors
    ///
    /// Tokens that the tokenizer cannot decode.
    pub fn decode(&self, tokens: &[u32]) -> Result<String> {
        match &self.vocabulary {
            None => guarded(|| self.tokenizer.decode(tokens, true)).map_err(failed),
            Some(Vocabulary { texts, .. }) => {
                let pieces = tokens.iter().filter_map(|&token| texts.get(token as usize)?.as_ref());
                let text: String = pieces.map(String::as_str).collect();
                Ok(text.replace(sentencepiece::SPACE, " ").trim().to_owned())
            }
        }
    }
}

fn failed(reason: String) -> Error {
    Error::Invalid { op: "translate", reason }
}

/// Calls the library. It may panic on files that are not as it expects; that becomes an error.
fn guarded<T>(work: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("the tokenizers library panicked".into()),
    }
}

impl fmt::Debug for TranslationTokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tokens = self.tokenizer.get_vocab_size(true);
        write!(f, "TranslationTokenizer({tokens} tokens, {} languages)", self.languages.len())
    }
}
