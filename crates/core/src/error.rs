//! What can go wrong, and which call reports it.

use std::sync::Arc;
use std::time::Duration;

/// The result of a call into Millstream.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong in the runtime.
///
/// Errors are cheap to clone: one fault may have to reach several waiting calls.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A shape, stride or offset that does not describe memory.
    #[error("invalid layout: {reason}")]
    InvalidLayout {
        /// What is wrong, with the figures.
        reason: String,
    },
    /// Operands that do not fit the operation.
    #[error("{op}: {reason}")]
    InvalidCommand {
        /// The operation's name.
        op: &'static str,
        /// What is wrong, with the shapes or types.
        reason: String,
    },
    /// An operand or parameter that does not fit the operation.
    #[error("{op}: {operand} is {found}, expected {expected}")]
    Mismatch {
        /// The operation's name.
        op: &'static str,
        /// The operand or parameter, by the name that [`Op`](crate::Op) has for it.
        operand: &'static str,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// The device has no kernel for this operation or element type.
    #[error("{op} is not supported on {device}: {reason}")]
    Unsupported {
        /// The operation's name.
        op: &'static str,
        /// The device's name.
        device: String,
        /// What is missing.
        reason: String,
    },
    /// A buffer or stream of one device was used with another device.
    #[error("{what} belongs to device {found}, not {expected}: copy it there first")]
    WrongDevice {
        /// What was misused.
        what: &'static str,
        /// The device it belongs to.
        found: String,
        /// The device of the call.
        expected: String,
    },
    /// A settled buffer was used as an output.
    #[error("{op}: the output buffer is settled and can no longer be written")]
    Settled {
        /// The operation's name.
        op: &'static str,
    },
    /// No memory is left, after everything that can be given back was given back. The device stays
    /// healthy.
    #[error(
        "out of memory on {device}: {requested} bytes requested, {in_use} in use, {cached} cached, \
         {reserved} reserved of {limit} allowed"
    )]
    OutOfMemory {
        /// The device's name.
        device: String,
        /// Bytes asked for.
        requested: usize,
        /// Bytes that live buffers hold.
        in_use: usize,
        /// Bytes in free lists.
        cached: usize,
        /// Bytes taken from the device.
        reserved: usize,
        /// The budget.
        limit: usize,
    },
    /// The host has no memory for what is transferred. The device stays healthy.
    #[error("out of memory on the host: {requested} bytes requested for a transfer")]
    OutOfHostMemory {
        /// Bytes asked for.
        requested: usize,
    },
    /// Every stream is leased and the pool is set to fail, or the wait for one ran out.
    #[error(
        "all {streams} streams of {device} are leased (waited {waited:?}): end some threads, raise \
         MILLSTREAM_STREAMS, or set MILLSTREAM_EXHAUSTION=share"
    )]
    StreamsExhausted {
        /// The device's name.
        device: String,
        /// Streams in the pool that can be leased.
        streams: usize,
        /// How long the call waited.
        waited: Duration,
    },
    /// The device did not finish in time.
    #[error(
        "timed out after {waited:?} on {device}: stream {stream} had not finished {command} \
         (sequence number {sequence})"
    )]
    Timeout {
        /// The device's name.
        device: String,
        /// The stream waited for.
        stream: u32,
        /// The sequence number of the first unfinished command.
        sequence: u64,
        /// The name of that command.
        command: &'static str,
        /// How long the call waited.
        waited: Duration,
    },
    /// A command failed on the device. What it should have made is not there, nor what is computed from that;
    /// nothing else is harmed.
    #[error("{command}{} failed on stream {stream} (sequence number {sequence}): {message}", in_layer(*layer))]
    Fault {
        /// The stream on which the fault happened.
        stream: u32,
        /// The sequence number of the command that failed.
        sequence: u64,
        /// The name of that command.
        command: &'static str,
        /// The layer that recorded it, by the name of its weights.
        layer: Option<&'static str>,
        /// What the device said.
        message: Arc<str>,
    },
    /// The device is gone. Every call on it fails from now on.
    #[error("device {device} is lost: {reason}")]
    DeviceLost {
        /// The device's name.
        device: String,
        /// What the device said.
        reason: Arc<str>,
    },
    /// The device was closed.
    #[error("device {device} is closed: open it again")]
    DeviceClosed {
        /// The device's name.
        device: String,
    },
    /// The device was opened before `fork`, in the parent process.
    #[error(
        "device {device} was opened before fork and is not usable in the child: open a new one"
    )]
    Forked {
        /// The device's name.
        device: String,
    },
    /// No device has that name.
    #[error("no device is named {name:?}; known here: {known}")]
    UnknownDevice {
        /// The name that was asked for.
        name: String,
        /// The names that would work.
        known: String,
    },
    /// A device exists but could not be opened.
    #[error("device {name} cannot be opened: {reason}")]
    Unavailable {
        /// The device's name.
        name: String,
        /// What is missing and how to get it.
        reason: String,
    },
    /// A setting that does not parse or is out of range.
    #[error("{key}={value:?} is not valid: expected {expected}")]
    InvalidConfig {
        /// The setting's name, as in `MILLSTREAM_STREAMS`.
        key: String,
        /// The value found.
        value: String,
        /// What would be accepted.
        expected: &'static str,
    },
    /// A kernel or plan did not compile. The next call for the same key tries again.
    #[error("compiling {key} failed: {message}")]
    Compile {
        /// What was being compiled.
        key: String,
        /// What the compiler said.
        message: Arc<str>,
    },
    /// A file could not be written.
    #[error("cannot write {path}: {message}")]
    Write {
        /// The file.
        path: String,
        /// What the system said.
        message: String,
    },
}

fn in_layer(layer: Option<&'static str>) -> String {
    layer.map_or_else(String::new, |layer| format!(" in layer {layer}"))
}

impl Error {
    /// Whether the same call may succeed later without any change by the caller.
    ///
    /// True for lack of a resource that others give back (memory, streams, time) and for faults and
    /// failed compiles, which do not harm later work. False for misuse and for a device that is lost.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Error::OutOfMemory { .. }
                | Error::OutOfHostMemory { .. }
                | Error::StreamsExhausted { .. }
                | Error::Timeout { .. }
                | Error::Fault { .. }
                | Error::Compile { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_names_stream_sequence_and_command() {
        let error = Error::Timeout {
            device: "cpu".into(),
            stream: 3,
            sequence: 17,
            command: "matmul",
            waited: Duration::from_secs(30),
        };
        let text = error.to_string();
        assert!(text.contains("stream 3") && text.contains("17") && text.contains("matmul"));
        assert!(error.is_retryable());
    }

    #[test]
    fn a_lost_device_is_not_retryable() {
        let error = Error::DeviceLost { device: "cpu".into(), reason: "gone".into() };
        assert!(!error.is_retryable());
    }
}
