//! Normalization of text to the form of the vocabulary.

use unicode_categories::UnicodeCategories;
use unicode_normalization::UnicodeNormalization;

/// BERT's normalizer.
#[derive(Clone, Copy, Debug)]
pub struct Normalizer {
    pub clean_text: bool,
    pub handle_chinese_chars: bool,
    pub strip_accents: bool,
    pub lowercase: bool,
}

impl Normalizer {
    pub fn apply(&self, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        for character in text.chars() {
            match character {
                _ if self.clean_text && is_dropped(character) => {}
                _ if self.clean_text && character.is_whitespace() => clean.push(' '),
                _ if self.handle_chinese_chars && is_chinese(character) => {
                    clean.extend([' ', character, ' ']);
                }
                _ => clean.push(character),
            }
        }
        if self.strip_accents {
            clean = clean.nfd().filter(|character| !character.is_mark_nonspacing()).collect();
        }
        if self.lowercase {
            // Letter by letter, since `str::to_lowercase` treats the last sigma of a word differently.
            clean = clean.chars().flat_map(char::to_lowercase).collect();
        }
        clean
    }
}

/// Characters that are removed: control characters, and the replacement character.
fn is_dropped(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' => false,
        '\0' | '\u{fffd}' => true,
        _ => character.is_other(),
    }
}

/// Whether a character is Chinese, by its Unicode block. Each of these is a word by itself.
fn is_chinese(character: char) -> bool {
    matches!(
        character,
        '\u{4e00}'..='\u{9fff}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{20000}'..='\u{2a6df}'
            | '\u{2a700}'..='\u{2b73f}'
            | '\u{2b740}'..='\u{2b81f}'
            | '\u{2b920}'..='\u{2ceaf}'
            | '\u{f900}'..='\u{faff}'
            | '\u{2f800}'..='\u{2fa1f}'
    )
}
