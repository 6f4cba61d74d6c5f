//! From words to the pieces that the vocabulary has.

use unicode_categories::UnicodeCategories;

use super::pieces::Pieces;

/// Words and marks of punctuation, one after another.
pub fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(char::is_whitespace)
        .flat_map(|word| word.split_inclusive(is_punctuation))
        .flat_map(|part| {
            // A mark ends its part; what is before it is a word.
            let mark = part.chars().next_back().filter(|&last| is_punctuation(last));
            let (word, mark) = part.split_at(part.len() - mark.map_or(0, char::len_utf8));
            [word, mark]
        })
        .filter(|part| !part.is_empty())
}

fn is_punctuation(character: char) -> bool {
    character.is_ascii_punctuation() || character.is_punctuation()
}

/// The pieces of words, and their numbers.
#[derive(Debug)]
pub struct Vocabulary {
    /// Pieces that begin a word.
    pub first: Pieces,
    /// Pieces that go on with one, without the mark that says so.
    pub further: Pieces,
    /// Stands for a word that cannot be put together.
    pub unknown: u32,
    pub max_characters: usize,
    pub size: usize,
}

impl Vocabulary {
    pub fn size(&self) -> usize {
        self.size
    }

    /// The longest piece that begins a word, the longest that goes on, and so forth.
    pub fn push_pieces(&self, word: &str, tokens: &mut Vec<u32>) {
        let start = tokens.len();
        let mut rest = word;
        // Characters are only counted where bytes do not settle it.
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
