//! What can go wrong above the runtime.

use crate::WeightProblem;

/// The result of a call into this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong with tensors, layers and weights.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The runtime said no: see there.
    #[error(transparent)]
    Runtime(#[from] millstream_core::Error),
    /// Tensors or arguments that do not fit the operation.
    #[error("{op}: {reason}")]
    Invalid {
        /// The operation's name.
        op: &'static str,
        /// What is wrong, with the shapes or types.
        reason: String,
    },
    /// A file could not be read.
    #[error("cannot read {path}: {message}")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        message: String,
    },
    /// A file could not be written.
    #[error("cannot write {path}: {message}")]
    Write {
        /// The file.
        path: String,
        /// What the system said.
        message: String,
    },
    /// A file that is not what it should be.
    #[error("{path} is not valid: {reason}")]
    Format {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Weights that do not fit the model.
    #[error("{}", crate::weights::listed(problems))]
    Weights {
        /// Every tensor that does not fit.
        problems: Vec<WeightProblem>,
    },
}

impl Error {
    /// Whether the same call may succeed later without any change by the caller.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Runtime(error) if error.is_retryable())
    }

    /// The same error under the name of the operation that the caller knows.
    pub(crate) fn named(op: &'static str, error: millstream_core::Error) -> Self {
        use millstream_core::Error as Core;
        match error {
            Core::InvalidCommand { reason, .. } | Core::InvalidLayout { reason } => {
                Error::Invalid { op, reason }
            }
            Core::Mismatch { operand, expected, found, .. } => {
                Error::Invalid { op, reason: format!("{operand} is {found}, expected {expected}") }
            }
            other => Error::Runtime(other),
        }
    }
}

/// The error of arguments that do not fit.
pub(crate) fn invalid<T>(op: &'static str, reason: String) -> Result<T> {
    Err(Error::Invalid { op, reason })
}
