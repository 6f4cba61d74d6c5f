//! What Metal says when something fails, and whether the device survives it.

use millstream_gpu::Failure;
use objc2_foundation::NSError;
use objc2_metal::MTLCommandBufferError;

/// Codes of the kernel driver, which come as underlying error or in the text.
mod iogpu {
    /// Nothing of this process is executed any more, after earlier faults.
    pub const SUBMISSIONS_IGNORED: isize = 4;
    /// Another's fault ended it.
    pub const INNOCENT_VICTIM: isize = 5;
    /// Memory was lacking.
    pub const OUT_OF_MEMORY: isize = 8;
}

/// A failure of a call that gives an `NSError`.
pub(crate) fn of_error(call: &'static str, error: &NSError) -> Failure {
    Failure::new(call, format!("{} {}", error.domain(), error.code()), words(error))
}

/// A call that gave nothing.
pub(crate) fn nothing(call: &'static str, what: &str) -> Failure {
    Failure::new(call, "nil", format!("there is no {what} to be had"))
}

/// Why a command buffer failed.
pub(crate) fn of_command_buffer(error: Option<&NSError>) -> Failure {
    let call = "a command buffer";
    let Some(error) = error else { return Failure::new(call, "an error", "without a reason") };
    let below = underlying(error);
    let name = name(MTLCommandBufferError(error.code().cast_unsigned()));
    let said = |code: isize| below == Some(code);
    let removed = error.code() == MTLCommandBufferError::DeviceRemoved.0.cast_signed();
    let lacking = error.code() == MTLCommandBufferError::OutOfMemory.0.cast_signed();
    let text = match below {
        Some(iogpu::INNOCENT_VICTIM) => {
            format!("{}: another's fault ended it, and it may be tried again", words(error))
        }
        _ => words(error),
    };
    Failure {
        sticky: removed || said(iogpu::SUBMISSIONS_IGNORED),
        out_of_memory: lacking || said(iogpu::OUT_OF_MEMORY),
        ..Failure::new(call, name, text)
    }
}

/// The code of the kernel driver: that of an underlying error of its domain, or the number in the text.
fn underlying(error: &NSError) -> Option<isize> {
    let below = error.underlyingErrors();
    // The same number of another domain says something else.
    if let Some(below) = below.iter().find(|below| below.domain().to_string().contains("IOGPU")) {
        return Some(below.code());
    }
    // As in "… (00000004:kIOGPUCommandBufferCallbackErrorSubmissionsIgnored)".
    let text = words(error);
    let (before, _) = text.split_once(":kIOGPU")?;
    let digits = before.rsplit('(').next()?;
    isize::from_str_radix(digits, 16).ok()
}

fn words(error: &NSError) -> String {
    error.localizedDescription().to_string()
}

fn name(error: MTLCommandBufferError) -> String {
    let name = match error {
        MTLCommandBufferError::Internal => "Internal",
        MTLCommandBufferError::Timeout => "Timeout",
        MTLCommandBufferError::PageFault => "PageFault",
        MTLCommandBufferError::AccessRevoked => "AccessRevoked",
        MTLCommandBufferError::NotPermitted => "NotPermitted",
        MTLCommandBufferError::OutOfMemory => "OutOfMemory",
        MTLCommandBufferError::InvalidResource => "InvalidResource",
        MTLCommandBufferError::DeviceRemoved => "DeviceRemoved",
        MTLCommandBufferError::StackOverflow => "StackOverflow",
        other => return format!("error {}", other.0),
    };
    format!("MTLCommandBufferError{name}")
}
