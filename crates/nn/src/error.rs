//! Errors of tensors and layers, which are errors of the runtime.

use millstream_core::LayerName;
pub use millstream_core::{Error, Result, WeightProblem};

use crate::Tensor;

/// The error of arguments that do not fit.
#[cold]
pub(crate) fn invalid<T>(op: &'static str, reason: String) -> Result<T> {
    Err(named(op, Error::Invalid { op, reason }))
}

/// The same error with the name of the operation that the caller knows, and of the thread's current layer.
#[cold]
pub(crate) fn named(op: &'static str, error: Error) -> Error {
    match (LayerName::current(), Error::named(op, error)) {
        (Some(layer), Error::Invalid { reason, .. }) => {
            Error::Layer { layer: layer.as_str(), op: Some(op), reason }
        }
        (layer, Error::Mismatch { operand, expected, found, .. }) => {
            // What Commands call `src` is the input of an operation or a layer.
            let operand = if operand == "src" { "input" } else { operand };
            let Some(layer) = layer else {
                return Error::Mismatch { op, operand, expected, found };
            };
            let reason = format!("{operand} is {found}, expected {expected}");
            Error::Layer { layer: layer.as_str(), op: Some(op), reason }
        }
        (_, error) => error,
    }
}

/// The error of a layer for an input that does not fit.
#[cold]
pub(crate) fn refusal(layer: &'static str, reason: String) -> Error {
    Error::Layer { layer, op: None, reason }
}

/// The same as a result.
#[cold]
pub(crate) fn refused<T>(layer: &'static str, reason: String) -> Result<T> {
    Err(refusal(layer, reason))
}

/// A tensor as messages show it: `f32[3, 4]`.
pub(crate) fn shown(tensor: &Tensor) -> String {
    format!("{}{:?}", tensor.dtype(), tensor.shape())
}
