//! Commands that the device did not get, or got only in part.

use millstream_core::Error;

/// Which Commands of a batch the device has not run, and why.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// Single Commands, sorted by index.
    single: Vec<(usize, Error)>,
    /// All Commands from this index on.
    rest: Option<(usize, Error)>,
}

impl Failures {
    /// All Commands.
    pub fn all(error: Error) -> Self {
        Self { single: Vec::new(), rest: Some((0, error)) }
    }

    /// Adds a Command that could not be lowered. Indices are added in ascending order.
    pub fn add(&mut self, index: usize, error: Error) {
        self.single.push((index, error));
    }

    /// Adds all Commands from an index on: they were not launched, or the first of them only in part.
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
