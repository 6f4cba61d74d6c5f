//! What all layers are.

use std::fmt;

use millstream_core::Activation;

use super::describe::type_name;
use crate::{Result, Tensor};

/// A layer or a model: a function of one tensor.
///
/// # Thread safety
///
/// A module does not change. Any number of threads may call it at once, and each call gets the bits that
/// it would get alone.
///
/// # Example
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{Linear, Module, Weights};
/// use millstream::{DType, Device, Result, Tensor};
///
/// struct Gate {
///     value: Linear,
///     gate: Linear,
/// }
///
/// impl Module for Gate {
///     fn forward(&self, input: &Tensor) -> Result<Tensor> {
///         self.value.forward(input)? * self.gate.forward(input)?.sigmoid()?
///     }
/// }
///
/// let device = Device::cpu()?;
/// let gate = Weights::random(1, DType::F32, &device).load(|weights| {
///     Ok(Gate {
///         value: Linear::new(4, 4, true, &weights.child("value"))?,
///         gate: Linear::new(4, 4, true, &weights.child("gate"))?,
///     })
/// })?;
/// std::thread::scope(|scope| {
///     for _ in 0..8 {
///         scope.spawn(|| gate.forward(&Tensor::ones(&[1, 4], DType::F32, &device)?)?.to_vec::<f32>());
///     }
/// });
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// What threads cannot share is no module:
///
/// ```compile_fail
/// # use millstream_nn::{Module, Result, Tensor};
/// struct Counting(std::cell::Cell<u32>);
///
/// impl Module for Counting {
///     fn forward(&self, input: &Tensor) -> Result<Tensor> {
///         self.0.set(self.0.get() + 1);
///         Ok(input.clone())
///     }
/// }
/// ```
#[doc(alias = "nn.Module")]
pub trait Module: Send + Sync {
    /// Applies the module.
    ///
    /// # Blocks when
    ///
    /// Recording does; see [`Stream::record`](millstream_core::Stream::record).
    ///
    /// # Errors
    ///
    /// An input of the wrong shape or type, or no memory.
    fn forward(&self, input: &Tensor) -> Result<Tensor>;

    /// Applies the module and then an activation; layers that can do both in one Command do.
    ///
    /// # Errors
    ///
    /// As for [`forward`](Self::forward).
    fn forward_activated(&self, input: &Tensor, activation: Activation) -> Result<Tensor> {
        self.forward(input)?.activate(activation)
    }

    /// The activation that this module is, where it is one that a layer before it can apply.
    fn as_activation(&self) -> Option<Activation> {
        None
    }

    /// Writes what the module is, as PyTorch prints it: the name of its type, unless it says more with a
    /// [`Description`](crate::Description).
    ///
    /// # Errors
    ///
    /// Those of the formatter.
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}()", type_name::<Self>())
    }
}

macro_rules! pointers {
    ($($pointer:ty),*) => {
        $(
            impl<M: Module + ?Sized> Module for $pointer {
                fn forward(&self, input: &Tensor) -> Result<Tensor> {
                    (**self).forward(input)
                }

                fn forward_activated(&self, input: &Tensor, activation: Activation) -> Result<Tensor> {
                    (**self).forward_activated(input, activation)
                }

                fn as_activation(&self) -> Option<Activation> {
                    (**self).as_activation()
                }

                fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    (**self).describe(f)
                }
            }
        )*
    };
}

pointers!(&M, Box<M>, std::sync::Arc<M>);
