//! Tokens that a text can contain by name, such as `[MASK]`.

/// A token and its text.
#[derive(Debug)]
pub struct SpecialToken {
    pub text: String,
    pub token: u32,
    /// Whether it includes the white space before it and after it.
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

    /// Calls `take` with the pieces of a text in order, until it returns false.
    pub fn split<'a>(&self, text: &'a str, mut take: impl FnMut(Piece<'a>) -> bool) {
        let (mut rest, mut finder) = (text, Finder::new(self, text));
        while let Some((at, special)) = finder.next(text.len() - rest.len()) {
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
}

/// Finds one token after the other. The search for each token continues where it was found last, so a text is
/// searched once for each token, however often it occurs.
struct Finder<'a, 'b> {
    text: &'a str,
    /// The next position of each token that still occurs.
    next: Vec<(usize, &'b SpecialToken)>,
}

impl<'a, 'b> Finder<'a, 'b> {
    fn new(tokens: &'b SpecialTokens, text: &'a str) -> Self {
        let first = |special: &'b SpecialToken| Some((find(text, special, 0)?, special));
        Self { text, next: tokens.0.iter().filter_map(first).collect() }
    }

    /// The first token from `start` on, and its distance. If several begin at the same position, the longest.
    fn next(&mut self, start: usize) -> Option<(usize, &'b SpecialToken)> {
        let text = self.text;
        self.next.retain_mut(|(at, special)| {
            if *at < start {
                let Some(found) = find(text, special, start) else { return false };
                *at = found;
            }
            true
        });
        let first =
            |(at, special): &&(usize, &SpecialToken)| (*at, std::cmp::Reverse(special.text.len()));
        let &(at, special) = self.next.iter().min_by_key(first)?;
        Some((at - start, special))
    }
}

fn find(text: &str, special: &SpecialToken, start: usize) -> Option<usize> {
    #[cfg(test)]
    finds::note();
    Some(start + text[start..].find(&special.text)?)
}

/// Counts the searches of this thread.
#[cfg(test)]
pub mod finds {
    use std::cell::Cell;

    thread_local! {
        static FINDS: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn note() {
        FINDS.set(FINDS.get() + 1);
    }

    pub fn of(work: impl FnOnce()) -> usize {
        FINDS.set(0);
        work();
        FINDS.get()
    }
}
