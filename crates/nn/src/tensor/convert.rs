//! Copies: to another element type, device or order in memory.

use millstream_core::{DType, Device, Op};

use super::{OpRecorder, Tensor};
use crate::Result;

impl Tensor {
    /// The same values in another element type, or this tensor if it has that type. Values are converted as by
    /// Rust's `as`; to `bool`, zero gives false and all else true.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::new(&[1.5f32, 2.5], &Device::cpu()?)?;
    /// assert_eq!(a.to_dtype(DType::I64)?.to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// No memory.
    #[doc(alias = "cast")]
    #[doc(alias = "astype")]
    #[doc(alias = "half")]
    #[doc(alias = "float")]
    #[doc(alias = "type")]
    pub fn to_dtype(&self, dtype: DType) -> Result<Self> {
        if dtype == self.dtype() { Ok(self.clone()) } else { self.copied("to_dtype", dtype) }
    }

    /// The same values on another device, or this tensor if it is there. Waits for the values.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let device = Device::cpu()?;
    /// let a = Tensor::ones(&[2], DType::F32, &device)?;
    /// assert_eq!(a.to_device(&device)?.to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Blocks when
    ///
    /// The other device is not this one, and the values are not computed yet.
    ///
    /// # Errors
    ///
    /// What went wrong while they were computed, or no memory.
    #[doc(alias = "cuda")]
    #[doc(alias = "to")]
    pub fn to_device(&self, device: &Device) -> Result<Self> {
        if *device == self.device() {
            return Ok(self.clone());
        }
        Self::from_bytes(&self.to_bytes()?, self.shape(), self.dtype(), device)
    }

    /// The same values in row-major order without gaps; this tensor if it is so already.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[[1i64, 2], [3, 4]], &Device::cpu()?)?.t()?;
    /// assert!(!a.is_contiguous() && a.contiguous()?.is_contiguous());
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn contiguous(&self) -> Result<Self> {
        if self.is_contiguous() {
            Ok(self.clone())
        } else {
            self.copied("contiguous", self.dtype())
        }
    }

    /// The same values in memory of their own, in row-major order without gaps.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[1i64, 2, 3], &Device::cpu()?)?;
    /// let last = a.narrow(0, 2, 1)?.copy()?; // keeps one number alive, not three
    /// assert_eq!(last.to_vec::<i64>()?, [3]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// No memory.
    #[doc(alias = "clone")]
    pub fn copy(&self) -> Result<Self> {
        self.copied("copy", self.dtype())
    }

    pub(crate) fn copied(&self, op: &'static str, dtype: DType) -> Result<Self> {
        OpRecorder::new(op, &self.device())?.apply(Op::Copy { dtype, saturate: true }, &[self])
    }
}
