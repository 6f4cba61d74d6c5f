//! Streams of the driver.

use cudarc::driver::sys::{self, CUresult, CUstream};
use millstream_gpu::Failure;

use super::check;

/// The flag of a stream that takes no part in the default stream's order.
const NON_BLOCKING: u32 = 1;

/// A stream that waits for nothing but what it is told to.
pub(crate) struct Stream(CUstream);

// SAFETY: the driver lets any thread use any stream.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// # Errors
    ///
    /// What the driver said.
    pub fn new() -> Result<Self, Failure> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the context is current, and `raw` is a place for the result.
        check("cuStreamCreate", unsafe { sys::cuStreamCreate(&mut raw, NON_BLOCKING) })?;
        Ok(Self(raw))
    }

    /// The handle, for calls of the driver.
    pub fn raw(&self) -> CUstream {
        self.0
    }

    /// Whether everything given to it has run. Also how a fault of the hardware is noticed.
    ///
    /// # Errors
    ///
    /// What the driver said.
    pub fn is_idle(&self) -> Result<bool, Failure> {
        // SAFETY: the handle lives as long as its owner.
        match unsafe { sys::cuStreamQuery(self.0) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            status => check("cuStreamQuery", status).map(|()| true),
        }
    }

    /// Blocks until everything given to it has run. Only for opening and closing a device.
    ///
    /// # Errors
    ///
    /// What the driver said.
    pub fn synchronize(&self) -> Result<(), Failure> {
        // SAFETY: the handle lives as long as its owner.
        check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.0) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: created above and destroyed only here. A failure leaves nothing to do.
        unsafe { sys::cuStreamDestroy_v2(self.0) };
    }
}
