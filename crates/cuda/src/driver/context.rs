//! The primary context of a GPU.

use std::cell::Cell;

use cudarc::driver::sys::{self, CUcontext, CUdevice};
use millstream_gpu::Failure;

use super::check;

thread_local! {
    /// The context that this crate last made current on the thread.
    static CURRENT: Cell<CUcontext> = const { Cell::new(std::ptr::null_mut()) };
}

/// The primary context of a GPU, which lives as long as the process: buffers may outlive a device that
/// was closed, and threads may be in the middle of a call when `main` returns.
pub(crate) struct Context {
    raw: CUcontext,
}

// SAFETY: the driver lets any thread use any context.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Retains the primary context and makes it current.
    ///
    /// # Errors
    ///
    /// What the driver said.
    pub fn retain(device: CUdevice) -> Result<Self, Failure> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the driver is initialised, and `raw` is a place for the result.
        check("cuDevicePrimaryCtxRetain", unsafe {
            sys::cuDevicePrimaryCtxRetain(&mut raw, device)
        })?;
        let context = Self { raw };
        context.make_current()?;
        Ok(context)
    }

    /// Makes the context current on the calling thread. No call of the driver when it already is.
    ///
    /// # Errors
    ///
    /// What the driver said.
    pub fn make_current(&self) -> Result<(), Failure> {
        // A thread that is ending may have lost its own cell; then the driver is asked every time.
        if CURRENT.try_with(Cell::get) == Ok(self.raw) {
            return Ok(());
        }
        // SAFETY: the context is never released.
        check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(self.raw) })?;
        let _ = CURRENT.try_with(|current| current.set(self.raw));
        Ok(())
    }
}
