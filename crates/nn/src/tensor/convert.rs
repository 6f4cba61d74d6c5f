//! Copies: to another element type, device or order in memory.

use millstream_core::{DType, Device, Op};

use super::{OpRecorder, Tensor};
use crate::Result;

impl Tensor {
    /// The same values in another element type, or this tensor if it has that type. Conversion is that of
    /// Rust's `as`; to `bool` it asks whether a value is other than zero.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn to_dtype(&self, dtype: DType) -> Result<Self> {
        if dtype == self.dtype() { Ok(self.clone()) } else { self.copied("to_dtype", dtype) }
    }

    /// The same values on another device, or this tensor if it is there. Waits for the values.
    ///
    /// # Blocks when
    ///
    /// The other device is not this one, and the values are not there.
    ///
    /// # Errors
    ///
    /// What went wrong while they were computed, or no memory.
    pub fn to_device(&self, device: &Device) -> Result<Self> {
        if *device == self.device() {
            return Ok(self.clone());
        }
        Self::from_bytes(&self.to_bytes()?, self.shape(), self.dtype(), device)
    }

    /// The same values lying densely in row-major order; this tensor if they do.
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

    /// The same values in memory of their own.
    pub(crate) fn copied(&self, op: &'static str, dtype: DType) -> Result<Self> {
        OpRecorder::new(op, &self.device())?.apply(Op::Copy { dtype, saturate: true }, &[self])
    }
}
