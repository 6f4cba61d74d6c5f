//! A set of pieces, and a search for the longest one at the beginning of a text.

/// Pieces sorted by their bytes, with their ids.
#[derive(Debug, Default)]
pub struct Pieces(Vec<(Box<str>, u32)>);

impl Pieces {
    pub fn new(mut pieces: Vec<(Box<str>, u32)>) -> Self {
        pieces.sort_unstable();
        Self(pieces)
    }

    pub fn get(&self, piece: &str) -> Option<u32> {
        let place = self.0.binary_search_by(|(own, _)| (**own).cmp(piece)).ok()?;
        Some(self.0[place].1)
    }

    /// The longest piece at the beginning of a text: its id and its length.
    ///
    /// Each byte of the text is read at most once, up to the length of the longest piece with the same beginning.
    pub fn longest_prefix(&self, text: &str) -> Option<(u32, usize)> {
        // Most words are pieces.
        if let Some(number) = self.get(text).filter(|_| !text.is_empty()) {
            return Some((number, text.len()));
        }
        let (mut candidates, mut found) = (&self.0[..], None);
        for (index, byte) in text.bytes().enumerate() {
            #[cfg(test)]
            steps::note();
            // All candidates have the same bytes before this one, so they are sorted by it. A piece that ends here
            // comes first.
            let at = |piece: &(Box<str>, u32)| piece.0.as_bytes().get(index).copied();
            let start = candidates.partition_point(|piece| at(piece) < Some(byte));
            let count = candidates[start..].partition_point(|piece| at(piece) == Some(byte));
            candidates = &candidates[start..start + count];
            match candidates.first() {
                None => break,
                Some((piece, number)) if piece.len() == index + 1 => {
                    found = Some((*number, index + 1));
                }
                Some(_) => {}
            }
        }
        found
    }
}

/// Counts the bytes that this thread has read.
#[cfg(test)]
pub mod steps {
    use std::cell::Cell;

    thread_local! {
        static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn note() {
        STEPS.set(STEPS.get() + 1);
    }

    pub fn of(work: impl FnOnce()) -> usize {
        STEPS.set(0);
        work();
        STEPS.get()
    }
}

#[cfg(test)]
mod tests;
