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
mod tests {
    use super::*;

    fn error(text: &str) -> Error {
        Error::DeviceClosed { device: text.into() }
    }

    #[test]
    fn a_command_has_its_own_error_before_that_of_the_rest() {
        let mut failures = Failures::default();
        assert!(failures.is_empty() && failures.of(0).is_none());
        failures.add(1, error("one"));
        failures.add(4, error("four"));
        failures.add_rest(3, error("rest"));
        let found: Vec<_> = (0..6).map(|index| failures.of(index).cloned()).collect();
        let [one, four, rest] = ["one", "four", "rest"].map(|text| Some(error(text)));
        assert_eq!(found, [None, one, None, rest.clone(), four, rest]);
        assert!(!failures.is_empty());
    }

    #[test]
    fn a_batch_can_fail_as_a_whole() {
        let failures = Failures::all(error("all"));
        assert!((0..9).all(|index| failures.of(index) == Some(&error("all"))));
    }
}
