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
mod random;
mod read;
mod record;
mod reduce;
mod reshape;
mod split;
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

/// An array of numbers on a device.
///
/// It never changes, and clones and views share its memory.
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
/// # millstream_nn::doctest!();
/// use millstream::{DType, Device, Tensor};
///
/// let device = Device::cpu()?;
/// let a = Tensor::arange(0.0, 6.0, 1.0, DType::F32, &device)?.reshape(&[2, 3])?;
/// let b = Tensor::from_slice(&[10f32, 20.0, 30.0], &[3], &device)?;
/// let c = (&a + &b)?.matmul(&a.t()?)?;
/// assert_eq!(c.shape(), [2, 2]);
///
/// // Another thread goes on with it, before or after it is finished.
/// let sum = std::thread::spawn(move || c.sum(.., false)?.to_scalar::<f32>());
/// assert_eq!(sum.join().unwrap()?, 763.0);
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// A tensor cannot be written to:
///
/// ```compile_fail,E0608
/// # millstream_nn::doctest!();
/// fn overwrite(mut tensor: millstream::Tensor) {
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
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::zeros(&[2, 3], DType::F32, &Device::cpu()?)?;
    /// assert_eq!(a.shape(), [2, 3]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[doc(alias = "dims")]
    #[doc(alias = "size")]
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// The size of one axis.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::zeros(&[2, 3], DType::F32, &Device::cpu()?)?;
    /// assert_eq!((a.dim(0)?, a.dim(-1)?), (2, 3));
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An axis that does not exist.
    pub fn dim(&self, axis: impl Axis) -> Result<usize> {
        Ok(self.shape()[axis.resolve("dim", self.rank())?])
    }

    /// The number of axes.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::zeros(&[2, 3], DType::F32, &Device::cpu()?)?;
    /// assert_eq!(a.rank(), 2);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[doc(alias = "ndim")]
    pub fn rank(&self) -> usize {
        self.layout.rank()
    }

    /// The number of elements.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::zeros(&[2, 3], DType::F32, &Device::cpu()?)?;
    /// assert_eq!(a.elements(), 6);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[doc(alias = "numel")]
    #[doc(alias = "elem_count")]
    pub fn elements(&self) -> usize {
        self.layout.elements()
    }

    /// The element type.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::zeros(&[2, 3], DType::F32, &Device::cpu()?)?;
    /// assert_eq!(a.dtype(), DType::F32);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    pub fn dtype(&self) -> DType {
        self.layout.dtype()
    }

    /// The device that the tensor is on.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let device = Device::cpu()?;
    /// let a = Tensor::zeros(&[2, 3], DType::F32, &device)?;
    /// assert_eq!(a.device(), device);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    pub fn device(&self) -> Device {
        self.buffer.device()
    }

    /// Shape, strides and offset of the elements in their buffer.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::zeros(&[2, 3], DType::F32, &Device::cpu()?)?;
    /// assert_eq!(a.t()?.layout().strides(), [1, 3]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The memory of the tensor, which other tensors may share.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::zeros(&[2, 3], DType::F32, &Device::cpu()?)?;
    /// assert_eq!(a.buffer().bytes(), 6 * 4);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Whether the elements are in row-major order without gaps.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::zeros(&[2, 3], DType::F32, &Device::cpu()?)?;
    /// assert!(a.is_contiguous());
    /// assert!(!a.t()?.is_contiguous()); // a view of the same memory
    /// # Ok::<(), millstream::Error>(())
    /// ```
    pub fn is_contiguous(&self) -> bool {
        self.layout.is_contiguous()
    }

    /// A tensor over a buffer, for code that records Commands itself. Nothing may write to the buffer any more.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::command::Command;
    /// use millstream::memory::Layout;
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let stream = Device::cpu()?.stream()?;
    /// let layout = Layout::contiguous(DType::F32, &[2])?;
    /// let buffer = stream.allocate(layout.dense_bytes())?;
    /// stream.record(Command::fill(buffer.operand(layout), 7.0f32)?)?;
    /// assert_eq!(Tensor::from_buffer(buffer, layout)?.to_vec::<f32>()?, [7.0, 7.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
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

    /// As [`from_buffer`](Self::from_buffer), for a layout that is known to fit.
    pub(crate) fn whole(buffer: Buffer, layout: Layout) -> Self {
        Tensor { buffer, layout }
    }

    /// Waits until the values are computed. From then on every stream reads them without synchronization. Layers
    /// settle their weights.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let weight = Tensor::ones(&[2, 2], DType::F32, &Device::cpu()?)?.settle()?; // complete: threads share it freely
    /// assert!(weight.buffer().is_settled());
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Blocks when
    ///
    /// The values are not computed yet.
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
        write!(f, "Tensor({:?} on {})", self.layout, self.device().label())
    }
}
