//! Errors of tensors and layers, which are those of the runtime.

pub use millstream_core::{Error, Result, WeightProblem};

/// The error of arguments that do not fit.
pub(crate) fn invalid<T>(op: &'static str, reason: String) -> Result<T> {
    Err(Error::Invalid { op, reason })
}
