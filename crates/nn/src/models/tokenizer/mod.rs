//! From text to the tokens of BERT-type models.

mod normalize;
mod pieces;
mod read;
mod special;
#[cfg(test)]
mod tests;
mod words;

use std::path::Path;

use self::normalize::Normalizer;
use self::special::SpecialTokens;
use self::words::Vocabulary;
use crate::Result;

/// The WordPiece tokenizer of a `tokenizer.json`, as BERT-type models have it.
///
/// It gives the same tokens as the `tokenizers` library for a single text. No text is an error.
///
/// # Thread safety
///
/// It does not change; any number of threads may use it at once.
///
/// # Example
///
/// ```no_run
/// # millstream_nn::doctest!();
/// use millstream::nn::models::tokenizer::WordPiece;
///
/// let tokenizer = WordPiece::open("all-MiniLM-L6-v2/tokenizer.json")?;
/// assert_eq!(tokenizer.encode("Hello, world!", 256), [101, 7592, 1010, 2088, 999, 102]);
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Debug)]
pub struct WordPiece {
    normalizer: Normalizer,
    vocabulary: Vocabulary,
    special: SpecialTokens,
    /// The tokens before and after a text.
    before: Vec<u32>,
    after: Vec<u32>,
    pad_token: u32,
    max_tokens: Option<usize>,
}

impl WordPiece {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is not valid, another kind of tokenizer than BERT's, or a file above the limits:
    /// 64 MiB, 1,000 added tokens, 1,000 tokens before and after a text, and pieces of 1,024 bytes. Reading takes at
    /// most 32 times the file's size plus a megabyte of memory.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        read::open(path.as_ref())
    }

    /// The tokens of a text, including those before and after every text: at most `max_tokens` in all.
    ///
    /// The work is bounded: each byte of the text is read at most once for every byte of the longest piece of the
    /// vocabulary, and once for every added token.
    pub fn encode(&self, text: &str, max_tokens: usize) -> Vec<u32> {
        let room = max_tokens.saturating_sub(self.before.len() + self.after.len());
        let mut tokens = self.before.clone();
        let most = tokens.len().saturating_add(room);
        self.special.split(text, |piece| {
            match piece {
                special::Piece::Token(token) => tokens.push(token),
                special::Piece::Text(text) => {
                    let normal = self.normalizer.apply(text);
                    for word in words::split(&normal) {
                        self.vocabulary.push_pieces(word, &mut tokens);
                        if tokens.len() >= most {
                            break;
                        }
                    }
                }
            }
            tokens.len() < most
        });
        tokens.truncate(most);
        tokens.extend_from_slice(&self.after);
        tokens
    }

    /// The token that pads a text that is shorter than others of its batch.
    pub fn pad_token(&self) -> u32 {
        self.pad_token
    }

    /// The largest token id plus one.
    pub fn vocabulary_size(&self) -> usize {
        self.vocabulary.size().max(self.special.size())
    }

    /// The most tokens of a text, if the file says so.
    pub fn max_tokens(&self) -> Option<usize> {
        self.max_tokens
    }
}
