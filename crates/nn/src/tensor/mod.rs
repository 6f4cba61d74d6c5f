//! Tensors: immutable values on a device.

mod activate;
mod arrange;
mod attention;
mod binary;
mod convert;
mod create;
mod display;
mod index;
mod indexing;
mod join;
mod nested;
mod norm;
mod operators;
mod product;
mod read;
mod record;
mod reduce;
mod reshape;
mod unary;
mod view;
mod window;

#[cfg(test)]
mod tests;

use std::fmt;

use millstream_core::{Buffer, DType, Device, Layout, Operand};

pub use binary::TensorOrScalar;
pub use indexing::{AxisIndex, TensorIndex};
pub use nested::Nested;
#[cfg(test)]
pub(crate) use record::layers;
pub(crate) use record::{OpRecorder, some};

use crate::{Axis, Result};

/// An array of numbers on a device. It never changes, and clones and views share its memory.
///
/// Operations return at once: they record a [`Command`](millstream_core::Command) on the calling thread's
/// stream. Reading values ([`to_vec`](Self::to_vec), [`to_scalar`](Self::to_scalar), `Display`) waits for
/// them. What goes wrong on the device, such as an index out of range, is reported by the call that waits.
///
/// Operators (`&a + &b`, `&a * 2.0`, `-&a`) return a [`Result`], as the methods do, since shapes may not
/// fit and memory may run out.
///
/// # Blocks when
///
/// An operation blocks when recording or allocating does: see [`Stream::record`](millstream_core::Stream::record)
/// and [`Stream::allocate`](millstream_core::Stream::allocate). From async code, await
/// [`Device::ready`](millstream_core::Device::ready) before a call and [`to_vec_async`](Self::to_vec_async) for its
/// result. [`to_device`](Self::to_device) to another device and `Display` wait for the values.
///
/// # Thread safety
///
/// Any thread may use, clone or drop any tensor, whichever thread made it and whether or not it is
/// finished; streams wait for each other by themselves.
///
/// # Example
///
/// ```
/// # use millstream_cpu as _;
/// use millstream_core::{DType, Device};
/// use millstream_nn::Tensor;
///
/// # fn main() -> millstream_nn::Result<()> {
/// let device = Device::cpu()?;
/// let a = Tensor::arange(0.0, 6.0, 1.0, DType::F32, &device)?.reshape(&[2, 3])?;
/// let b = Tensor::from_slice(&[10f32, 20.0, 30.0], &[3], &device)?;
/// let c = (&a + &b)?.matmul(&a.t()?)?;
/// assert_eq!(c.shape(), [2, 2]);
///
/// // Another thread goes on with it, before or after it is finished.
/// let sum = std::thread::spawn(move || c.sum(.., false)?.to_scalar::<f32>());
/// assert_eq!(sum.join().unwrap()?, 763.0);
/// # Ok(())
/// # }
/// ```
///
/// A tensor cannot be written to:
///
/// ```compile_fail
/// fn overwrite(mut tensor: millstream_nn::Tensor) {
///     tensor[0] = 1.0;
/// }
/// ```
#[derive(Clone)]
pub struct Tensor {
    buffer: Buffer,
    layout: Layout,
}

impl Tensor {
    /// The size of each axis.
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// The size of one axis.
    ///
    /// # Errors
    ///
    /// An axis that does not exist.
    pub fn dim(&self, axis: impl Axis) -> Result<usize> {
        Ok(self.shape()[axis.resolve("dim", self.rank())?])
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.layout.rank()
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.layout.elements()
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.layout.dtype()
    }

    /// The device it is on.
    pub fn device(&self) -> Device {
        self.buffer.device()
    }

    /// Where its elements lie in its buffer.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The memory it lies in, which other tensors may share.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Whether the elements lie densely in row-major order.
    pub fn is_contiguous(&self) -> bool {
        self.layout.is_contiguous()
    }

    /// A tensor over a buffer, for those who record Commands themselves. Who makes a tensor of a buffer
    /// must not write the buffer any more.
    ///
    /// # Errors
    ///
    /// A layout that does not fit the buffer.
    pub fn from_buffer(buffer: Buffer, layout: Layout) -> Result<Self> {
        if layout.extent_bytes() > buffer.bytes() {
            let bytes = buffer.bytes();
            return crate::error::invalid(
                "from_buffer",
                format!("{layout:?} does not fit a buffer of {bytes} bytes"),
            );
        }
        Ok(Tensor { buffer, layout })
    }

    /// The same for a layout that fits.
    pub(crate) fn whole(buffer: Buffer, layout: Layout) -> Self {
        Tensor { buffer, layout }
    }

    /// Declares the values final: waits until they are there, after which using them from any stream
    /// costs nothing. For weights.
    ///
    /// # Blocks when
    ///
    /// The values are not there.
    ///
    /// # Errors
    ///
    /// What went wrong while they were computed.
    pub fn settle(self) -> Result<Self> {
        self.buffer.settle()?;
        Ok(self)
    }

    #[inline]
    pub(crate) fn operand(&self) -> Operand<&Buffer> {
        self.buffer.operand(self.layout)
    }

    /// The same memory seen through another layout.
    fn viewed(&self, layout: Layout) -> Self {
        Tensor { buffer: self.buffer.clone(), layout }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({:?} on {})", self.layout, self.device().name())
    }
}
