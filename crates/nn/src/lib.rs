//! Tensors, layers and weights: networks as one writes them in PyTorch, run by Millstream.
//!
//! Start with [`Tensor`]. Everything here makes
//! [`Command`](millstream_core::Command)s on the calling thread's stream and nothing else, so it runs on
//! every device, and any thread may use any tensor or layer.

mod axis;
mod error;
mod npy;
mod tensor;
mod value;

pub use axis::{Axis, AxisSet, Size};
pub use error::{Error, Result};
pub use half::{bf16, f16};
pub use tensor::{Tensor, TensorOrScalar};
pub use value::Value;

// The tests' device registers itself.
#[cfg(test)]
use millstream_cpu as _;
