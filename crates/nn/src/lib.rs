//! Tensors, layers and weights: networks as one writes them in PyTorch, run by Millstream.
//!
//! Start with [`Tensor`], [`Module`] and [`Weights`]. Everything here makes
//! [`Command`](millstream_core::Command)s on the calling thread's stream and nothing else, so it runs on
//! every device, and any thread may use any tensor or layer.

mod axis;
mod bytes;
mod error;
mod layers;
pub mod models;
mod npy;
mod plan;
mod tensor;
mod value;
mod weights;

pub use axis::{Axis, AxisSet, Index, IndexRange, Size};
pub use error::{Error, Result, WeightProblem};
pub use half::{bf16, f16};
pub use layers::*;
pub use plan::Plan;
pub use tensor::{AxisIndex, Nested, Tensor, TensorIndex, TensorOrScalar};
pub use value::Value;
pub use weights::{Init, Weights, load, save};

// The tests' device registers itself.
#[cfg(test)]
use millstream_cpu as _;
