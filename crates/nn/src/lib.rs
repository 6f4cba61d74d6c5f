//! Tensors, layers, weights and models, with PyTorch's names.
//!
//! Start with [`Tensor`], [`Module`] and [`Weights`]. Everything here records [`Command`](millstream_core::Command)s
//! on the calling thread's stream. So it runs on every device, and any thread may use any tensor or layer.
//!
//! Names are PyTorch's; `docs/coming-from.md` in the repository compares them with those of PyTorch, candle and ort.
//! A model prints as in PyTorch:
//!
//! ```
//! # millstream_nn::doctest!();
//! use millstream::nn::{Linear, ReLU, Sequential, Weights};
//! use millstream::{DType, Device};
//!
//! let weights = Weights::random(1, DType::F32, &Device::cpu()?);
//! let model = Sequential::new().push(Linear::new(8, 16, true, &weights.child("0"))?).push(ReLU);
//! let text = "\
//! Sequential(
//!   (0): Linear(in_features=8, out_features=16, bias=True)
//!   (1): ReLU()
//! )";
//! assert_eq!(format!("{model:?}"), text);
//! # Ok::<(), millstream::Error>(())
//! ```

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
pub use weights::{Init, TensorInfo, Weights, inspect, load, save};

/// For examples in these docs: names this crate `millstream`, as a reader has it, and registers the CPU device.
#[doc(hidden)]
#[macro_export]
macro_rules! doctest {
    () => {
        use millstream_cpu as _;
        use $crate::doctest as millstream;
    };
}

/// `millstream`, as a reader of the examples in these docs has it.
#[doc(hidden)]
pub mod doctest {
    pub use crate as nn;
    pub use crate::Tensor;
    pub use millstream_core::api::*;
}

// The tests' device registers itself.
#[cfg(test)]
use millstream_cpu as _;
