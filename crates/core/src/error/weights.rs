//! How weights fail to fit a model.

use std::fmt;

/// One tensor that does not fit.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WeightProblem {
    /// The model needs it and it is not there.
    Missing {
        /// The full name.
        name: String,
        /// The shape that the model needs.
        shape: Vec<usize>,
    },
    /// It is there and the model does not know it.
    Unexpected {
        /// The full name.
        name: String,
    },
    /// It has another shape.
    Shape {
        /// The full name.
        name: String,
        /// The shape that the model needs.
        expected: Vec<usize>,
        /// The shape that it has.
        found: Vec<usize>,
    },
    /// Its elements are of a type that there is no [`DType`](crate::DType) for.
    Type {
        /// The full name.
        name: String,
        /// The type, as the file names it.
        found: String,
        /// The types that can be loaded, as files name them.
        known: Vec<&'static str>,
    },
}

impl fmt::Display for WeightProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WeightProblem::Missing { name, shape } => write!(f, "{name} {shape:?} is missing"),
            WeightProblem::Unexpected { name } => write!(f, "{name} is not expected"),
            WeightProblem::Shape { name, expected, found } => {
                write!(f, "{name} has shape {found:?}, the model needs {expected:?}")
            }
            WeightProblem::Type { name, found, known } => {
                write!(f, "{name} has elements of type {found}, known are {}", known.join(", "))
            }
        }
    }
}

/// All problems, one per line, of which the first hundred are named.
pub(super) fn listed(problems: &[WeightProblem]) -> String {
    const NAMED: usize = 100;
    let mut text = String::from("the weights do not fit the model:");
    for problem in problems.iter().take(NAMED) {
        text.push_str(&format!("\n  {problem}"));
    }
    if let Some(more) = problems.len().checked_sub(NAMED).filter(|&more| more > 0) {
        text.push_str(&format!("\n  and {more} more"));
    }
    text
}
