//! What the driver's statuses mean.

use std::ffi::CStr;

use cudarc::driver::sys::{self, CUresult};
use millstream_gpu::Failure;

/// Turns a status of the driver into a result.
pub(crate) fn check(call: &'static str, status: CUresult) -> Result<(), Failure> {
    if status == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(failure(call, status)) }
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

#[cold]
fn failure(call: &'static str, status: CUresult) -> Failure {
    let text = |ask: unsafe fn(CUresult, *mut *const std::ffi::c_char) -> CUresult| {
        let mut text = std::ptr::null();
        // SAFETY: both functions take any status and write a pointer to a constant, or null.
        let found = unsafe { ask(status, &mut text) };
        (found == CUresult::CUDA_SUCCESS && !text.is_null()).then(|| {
            // SAFETY: a constant of the driver that ends in a zero.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        })
    };
    Failure {
        call,
        name: text(sys::cuGetErrorName).unwrap_or_else(|| format!("{status:?}")),
        text: text(sys::cuGetErrorString).unwrap_or_else(|| "no description".into()),
        sticky: is_sticky(status),
        out_of_memory: status == CUresult::CUDA_ERROR_OUT_OF_MEMORY,
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
}
