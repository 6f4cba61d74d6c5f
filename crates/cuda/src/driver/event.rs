//! Events, which order one stream after another.

use cudarc::driver::sys::{self, CUevent, CUevent_flags_enum};
use millstream_gpu::Failure;

use super::{Stream, check};

/// An event without timing.
pub(crate) struct Event(CUevent);

// SAFETY: the driver lets any thread use any event.
unsafe impl Send for Event {}

impl Event {
    /// # Errors
    ///
    /// What the driver said.
    pub fn new() -> Result<Self, Failure> {
        let mut raw = std::ptr::null_mut();
        let flags = CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: the context is current, and `raw` is a place for the result.
        check("cuEventCreate", unsafe { sys::cuEventCreate(&mut raw, flags) })?;
        Ok(Self(raw))
    }

    /// Makes `later` wait for what `earlier` has been given so far. The event may be used again at
    /// once: a wait keeps to what was recorded when it was asked for.
    ///
    /// # Errors
    ///
    /// What the driver said.
    pub fn order(&mut self, earlier: &Stream, later: &Stream) -> Result<(), Failure> {
        // SAFETY: both handles live as long as their owners.
        check("cuEventRecord", unsafe { sys::cuEventRecord(self.0, earlier.raw()) })?;
        // SAFETY: as above.
        check("cuStreamWaitEvent", unsafe { sys::cuStreamWaitEvent(later.raw(), self.0, 0) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created above and destroyed only here. A failure leaves nothing to do.
        unsafe { sys::cuEventDestroy_v2(self.0) };
    }
}
