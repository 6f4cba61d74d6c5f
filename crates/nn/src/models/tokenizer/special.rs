//! Tokens that a text may name outright, such as `[MASK]`.

/// A token with the way it is written.
#[derive(Debug)]
pub struct SpecialToken {
    pub text: String,
    pub token: u32,
    /// Whether space before and after it goes with it.
    pub strips: (bool, bool),
}

#[derive(Debug, Default)]
pub struct SpecialTokens(pub Vec<SpecialToken>);

pub enum Piece<'a> {
    Token(u32),
    Text(&'a str),
}

impl SpecialTokens {
    pub fn size(&self) -> usize {
        self.0.iter().map(|special| special.token as usize + 1).max().unwrap_or(0)
    }

    /// The pieces of a text, in order, until `take` has had enough.
    pub fn split<'a>(&self, text: &'a str, mut take: impl FnMut(Piece<'a>) -> bool) {
        let mut rest = text;
        while let Some((at, special)) = self.find(rest) {
            let (mut before, mut after) = (&rest[..at], &rest[at + special.text.len()..]);
            if special.strips.0 {
                before = before.trim_end();
            }
            if special.strips.1 {
                after = after.trim_start();
            }
            if !(take(Piece::Text(before)) && take(Piece::Token(special.token))) {
                return;
            }
            rest = after;
        }
        take(Piece::Text(rest));
    }

    /// The first token in a text; where several begin at one place, the longest.
    fn find(&self, text: &str) -> Option<(usize, &SpecialToken)> {
        self.0
            .iter()
            .filter_map(|special| Some((text.find(&special.text)?, special)))
            .min_by_key(|(at, special)| (*at, std::cmp::Reverse(special.text.len())))
    }
}
