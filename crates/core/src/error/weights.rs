//! How weights fail to fit a model.

use std::fmt;

use crate::DType;

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
    /// Its elements are of a type that the layer has no use for.
    DType {
        /// The full name.
        name: String,
        /// What the layer needs.
        expected: String,
        /// The type that it has.
        found: DType,
    },
    /// Everything that is missing is there, below another name.
    Prefix {
        /// What the names that the model asks for begin with, where those that are there do not.
        asked: String,
        /// What the names that are there begin with, where those that the model asks for do not.
        found: String,
    },
    /// Its elements are of a type that there is no [`DType`] for.
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
            WeightProblem::DType { name, expected, found } => {
                let advice = match found.is_float() {
                    true => ": Weights::to_dtype gives all weights one type",
                    false => "",
                };
                write!(f, "{name} has elements of type {found}, the layer needs {expected}{advice}")
            }
            WeightProblem::Prefix { asked, found } if asked.is_empty() => write!(
                f,
                "all that is missing is there with {found:?} before its name: build the model from \
                 weights.child({:?})",
                found.trim_end_matches('.')
            ),
            WeightProblem::Prefix { asked, .. } => write!(
                f,
                "all that is missing is there without {asked:?} before its name: build the model from weights \
                 without child({:?})",
                asked.trim_end_matches('.')
            ),
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
