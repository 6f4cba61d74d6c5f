//! From words to pieces of the vocabulary.

use unicode_categories::UnicodeCategories;

use super::pieces::Pieces;

/// The words and punctuation marks of a text, in order.
pub fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(char::is_whitespace)
        .flat_map(|word| word.split_inclusive(is_punctuation))
        .flat_map(|part| {
            // A part ends with a mark; what comes before it is a word.
            let mark = part.chars().next_back().filter(|&last| is_punctuation(last));
            let (word, mark) = part.split_at(part.len() - mark.map_or(0, char::len_utf8));
            [word, mark]
        })
        .filter(|part| !part.is_empty())
}

fn is_punctuation(character: char) -> bool {
    character.is_ascii_punctuation() || character.is_punctuation()
}

/// The pieces of words, and their ids.
#[derive(Debug)]
pub struct Vocabulary {
    /// Pieces that begin a word.
    pub first: Pieces,
    /// Pieces that continue a word, without the prefix that marks them.
    pub further: Pieces,
    /// The token for a word that has no pieces.
    pub unknown: u32,
    pub max_characters: usize,
    pub size: usize,
}

impl Vocabulary {
    pub fn size(&self) -> usize {
        self.size
    }

    /// Adds the pieces of a word: the longest that begins it, then the longest that continues it, and so on.
    pub fn push_pieces(&self, word: &str, tokens: &mut Vec<u32>) {
        let start = tokens.len();
        let mut rest = word;
        // Characters are counted only if the number of bytes does not decide.
        if word.len() > self.max_characters && word.chars().count() > self.max_characters {
            tokens.push(self.unknown);
            return;
        }
        while !rest.is_empty() {
            let pieces = if rest.len() == word.len() { &self.first } else { &self.further };
            let Some((token, end)) = pieces.longest_prefix(rest) else {
                tokens.truncate(start);
                tokens.push(self.unknown);
                return;
            };
            tokens.push(token);
            rest = &rest[end..];
        }
    }
}
