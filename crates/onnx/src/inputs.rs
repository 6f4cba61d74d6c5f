//! Inputs of an operator that is being expanded.

use millstream_graph::{Edge, Expanded, Value};

use crate::Error;

/// The inputs of an operator; those at the end that are not given may be missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inputs<'a>(pub &'a [Option<Value>]);

impl<'a> Inputs<'a> {
    /// How many there are, given or not.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// An input, if it is given.
    pub fn value(&self, index: usize) -> Option<&'a Value> {
        self.0.get(index).and_then(Option::as_ref)
    }

    /// An input that must be given.
    pub fn required(&self, index: usize) -> Expanded<&'a Value> {
        match self.value(index) {
            Some(value) => Ok(value),
            None => {
                let reason = format!("input {index} is not given");
                Err(Error::Invalid { op: "input", reason }.into())
            }
        }
    }

    /// A tensor that must be given.
    pub fn tensor(&self, index: usize) -> Expanded<Edge> {
        self.required(index)?.tensor().map_err(|error| numbered(index, &error).into())
    }

    /// A tensor, if it is given.
    pub fn optional(&self, index: usize) -> Expanded<Option<Edge>> {
        match self.value(index) {
            Some(value) => Ok(Some(value.tensor().map_err(|error| numbered(index, &error))?)),
            None => Ok(None),
        }
    }

    /// All inputs, which must be tensors.
    pub fn tensors(&self) -> Expanded<Vec<Edge>> {
        (0..self.len()).map(|index| self.tensor(index)).collect()
    }
}

fn numbered(index: usize, error: &Error) -> Error {
    Error::Invalid { op: "input", reason: format!("input {index}: {error}") }
}
