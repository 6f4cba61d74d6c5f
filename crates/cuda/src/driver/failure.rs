//! What the driver says when a call fails.

use std::ffi::CStr;
use std::fmt;

use cudarc::driver::sys::{self, CUresult};
use millstream_core::Error;

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The function that was called.
    pub call: &'static str,
    /// What it answered, as a name.
    pub name: String,
    /// The same in words.
    pub text: String,
    /// Whether nothing works any more after it.
    pub sticky: bool,
    /// Whether memory was lacking.
    pub out_of_memory: bool,
}

/// Turns a status of the driver into a result.
pub(crate) fn check(call: &'static str, status: CUresult) -> Result<(), Failure> {
    if status == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(Failure::of(call, status)) }
}

/// Whether the context is unusable from this status on.
fn is_sticky(status: CUresult) -> bool {
    use CUresult::*;
    matches!(
        status,
        CUDA_ERROR_DEINITIALIZED
            | CUDA_ERROR_DEVICE_UNAVAILABLE
            | CUDA_ERROR_ECC_UNCORRECTABLE
            | CUDA_ERROR_NVLINK_UNCORRECTABLE
            | CUDA_ERROR_ILLEGAL_ADDRESS
            | CUDA_ERROR_LAUNCH_TIMEOUT
            | CUDA_ERROR_CONTEXT_IS_DESTROYED
            | CUDA_ERROR_ASSERT
            | CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUDA_ERROR_MISALIGNED_ADDRESS
            | CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUDA_ERROR_INVALID_PC
            | CUDA_ERROR_LAUNCH_FAILED
            | CUDA_ERROR_EXTERNAL_DEVICE
            | CUDA_ERROR_UNKNOWN
    )
}

impl Failure {
    #[cold]
    fn of(call: &'static str, status: CUresult) -> Self {
        let text = |ask: unsafe fn(CUresult, *mut *const std::ffi::c_char) -> CUresult| {
            let mut text = std::ptr::null();
            // SAFETY: both functions take any status and write a pointer to a constant, or null.
            let found = unsafe { ask(status, &mut text) };
            (found == CUresult::CUDA_SUCCESS && !text.is_null()).then(|| {
                // SAFETY: a constant of the driver that ends in a zero.
                unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
            })
        };
        Self {
            call,
            name: text(sys::cuGetErrorName).unwrap_or_else(|| format!("{status:?}")),
            text: text(sys::cuGetErrorString).unwrap_or_else(|| "no description".into()),
            sticky: is_sticky(status),
            out_of_memory: status == CUresult::CUDA_ERROR_OUT_OF_MEMORY,
        }
    }

    /// A failure of another library than the driver.
    #[cold]
    pub fn of_library(call: &'static str, name: String, text: String) -> Self {
        Self { call, name, text, sticky: false, out_of_memory: false }
    }

    /// The error for it while a device is opened.
    pub fn to_open_error(&self, device: &str) -> Error {
        Error::Unavailable { name: device.to_owned(), reason: self.to_string() }
    }

    /// The error for it when it concerns a device that is open.
    pub fn to_error(&self, device: &str) -> Error {
        let (device, message) = (device.to_owned(), self.to_string().into());
        match self.sticky {
            true => Error::DeviceLost { device, reason: message },
            false => Error::Driver { device, message },
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} gave {} ({})", self.call, self.name, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_kernels_are_sticky_and_a_lack_of_memory_is_not() {
        assert!(is_sticky(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS));
        assert!(is_sticky(CUresult::CUDA_ERROR_ECC_UNCORRECTABLE));
        assert!(!is_sticky(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
        assert!(!is_sticky(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
        assert!(!is_sticky(CUresult::CUDA_ERROR_NOT_READY));
    }

    #[test]
    fn a_sticky_failure_loses_the_device_and_names_the_call() {
        let mut failure =
            Failure::of_library("cuLaunchKernel", "CUDA_ERROR_X".into(), "words".into());
        assert!(failure.to_open_error("cuda:0").to_string().contains("cannot be opened"));
        let at_work = failure.to_error("cuda:0");
        assert!(matches!(at_work, Error::Driver { .. }), "{at_work}");
        assert!(!at_work.to_string().contains("cannot be opened"), "{at_work}");
        failure.sticky = true;
        let error = failure.to_error("cuda:0");
        assert!(matches!(error, Error::DeviceLost { .. }));
        let text = error.to_string();
        assert!(text.contains("cuLaunchKernel") && text.contains("CUDA_ERROR_X"), "{text}");
    }
}
