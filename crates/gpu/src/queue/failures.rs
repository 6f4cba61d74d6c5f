//! Commands that were not given to the device, or not whole.

use millstream_core::Error;

/// Which Commands of a batch the device has not run, and why.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// In the order of their indices.
    single: Vec<(usize, Error)>,
    /// All from that index on.
    rest: Option<(usize, Error)>,
}

impl Failures {
    /// All Commands.
    pub fn all(error: Error) -> Self {
        Self { single: Vec::new(), rest: Some((0, error)) }
    }

    /// A Command could not be lowered; it comes after those that were added before.
    pub fn add(&mut self, index: usize, error: Error) {
        self.single.push((index, error));
    }

    /// Nothing was launched of the Commands from that index on, or not all of the first of them.
    pub fn add_rest(&mut self, first: usize, error: Error) {
        self.rest = Some((first, error));
    }

    /// Whether the device has run every Command.
    pub fn is_empty(&self) -> bool {
        self.single.is_empty() && self.rest.is_none()
    }

    /// Why the device has not run a Command.
    pub fn of(&self, index: usize) -> Option<&Error> {
        let single = self.single.binary_search_by_key(&index, |(failed, _)| *failed);
        let rest = || self.rest.as_ref().filter(|(first, _)| index >= *first);
        single.ok().map(|at| &self.single[at]).or_else(rest).map(|(_, error)| error)
    }
}

#[cfg(test)]
mod tests;
