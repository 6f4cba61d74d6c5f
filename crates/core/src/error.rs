//! What can go wrong, and which call reports it.

mod cause;
mod operators;
#[cfg(test)]
mod tests;
mod weights;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use cause::Cause;
pub use operators::MissingOperator;
pub use weights::WeightProblem;

/// The result of a call into Millstream.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong, with figures in fields.
///
/// Every call of Millstream gives this type, so one `?` takes them all; [`Error::other`] takes those of other code. Errors are cheap to clone: one fault may
/// have to reach several waiting calls. What the system said is [`source`](std::error::Error::source), and stands in
/// the text too. `Debug` prints the plain text, so that an error that leaves `main` can be read.
///
/// ```
/// # use millstream_core::api as millstream;
/// use millstream::{Device, Error};
///
/// match Device::open("abacus") {
///     Err(Error::UnknownDevice { name, known }) => println!("{name} is none of {known}"),
///     Err(error) if error.is_retryable() => println!("later, perhaps: {error}"),
///     other => println!("{other:?}"),
/// }
/// ```
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A shape, stride or offset that does not describe memory.
    #[error("invalid layout: {reason}")]
    InvalidLayout {
        /// What is wrong, with the figures.
        reason: String,
    },
    /// Operands, tensors or arguments that do not fit the operation.
    #[error("{op}: {reason}")]
    Invalid {
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
    /// What a layer does not take, or an operation in it.
    #[error("{layer}: {}{reason}", operation(*op))]
    Layer {
        /// The layer, by the path of its weights.
        layer: &'static str,
        /// The operation's name; `None` where the layer itself refused its input.
        op: Option<&'static str>,
        /// What is wrong, with the shapes or types.
        reason: String,
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
    /// The deadline of a call of a session passed before it was answered. It was given up.
    #[error("the call was given up: its deadline passed before it was answered")]
    Late,
    /// A call of a session waited for its turn, and those before it did not come to their end. It was given up.
    #[error(
        "the call was given up: it waited {waited:?} for those before it. A call of run_async or submit that was begun must be polled \
         or dropped; MILLSTREAM_WAIT_TIMEOUT_MS allows more time"
    )]
    NoTurn {
        /// How long the call waited.
        waited: Duration,
    },
    /// Too many calls of a session wait for their turn already.
    #[error("{waiting} calls wait already: call again later, or allow more with Batching::queue")]
    Busy {
        /// How many wait.
        waiting: usize,
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
    /// A call of the device's driver failed during work. The device stays usable.
    #[error("the driver of {device} failed: {message}")]
    Driver {
        /// The device's name.
        device: String,
        /// The call and what the driver said.
        message: Arc<str>,
    },
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        source: Cause,
    },
    /// A file could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: String,
        /// What the system said.
        source: Cause,
    },
    /// A file that is not what it should be.
    #[error("{path} is not valid: {reason}")]
    Format {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Weights that do not fit the model.
    #[error("{}", weights::listed(problems))]
    Weights {
        /// Every tensor that does not fit.
        problems: Vec<WeightProblem>,
    },
    /// A node of a model that cannot be computed.
    #[error("node {node:?} ({operator}): {reason}")]
    Node {
        /// The name that the model gives it.
        node: String,
        /// What it does, as in `Conv`.
        operator: String,
        /// What is wrong.
        reason: String,
    },
    /// A model with operators that are not supported.
    #[error("{}", operators::listed(missing))]
    Operators {
        /// All of them.
        missing: Vec<MissingOperator>,
    },
    /// An error of code around Millstream, such as a closure that builds a model.
    #[error("{source}")]
    Other {
        /// That error.
        source: Cause,
    },
}

/// The plain text, and the causes that it does not have yet: what `fn main() -> Result<()>` prints.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.to_string();
        f.write_str(&text)?;
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            let said = error.to_string();
            if !text.contains(&said) {
                write!(f, "\n  caused by: {said}")?;
            }
            cause = error.source();
        }
        Ok(())
    }
}

fn operation(op: Option<&'static str>) -> String {
    op.map_or_else(String::new, |op| format!("{op}: "))
}

fn in_layer(layer: Option<&'static str>) -> String {
    layer.map_or_else(String::new, |layer| format!(" in layer {layer}"))
}

impl Error {
    /// An error of code around Millstream: of a closure that builds a model, say.
    ///
    /// There is no `From` for errors of others: with a second one, `?` in a closure that ends in `Ok(())` would no
    /// longer tell the compiler which error is meant.
    ///
    /// ```
    /// # use millstream_core::api as millstream;
    /// use millstream::{Error, Result};
    ///
    /// fn labels() -> Result<String> {
    ///     std::fs::read_to_string("/no/such/labels.txt").map_err(Error::other)
    /// }
    /// assert!(matches!(labels(), Err(Error::Other { .. })));
    /// ```
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Other { source: Cause::new(error) }
    }

    /// A file that could not be read.
    pub fn read(path: impl AsRef<Path>, error: std::io::Error) -> Self {
        Self::Read { path: path.as_ref().display().to_string(), source: Cause::new(error) }
    }

    /// A file that could not be written.
    pub fn write(path: impl AsRef<Path>, error: std::io::Error) -> Self {
        Self::Write { path: path.as_ref().display().to_string(), source: Cause::new(error) }
    }

    /// The same error under the name of the operation that the caller knows.
    ///
    /// It is for code that builds operations of other operations. Errors that name no operation stay as they are.
    pub fn named(op: &'static str, error: Self) -> Self {
        match error {
            Error::Invalid { reason, .. } | Error::InvalidLayout { reason } => {
                Error::Invalid { op, reason }
            }
            Error::Mismatch { operand, expected, found, .. } => {
                Error::Mismatch { op, operand, expected, found }
            }
            other => other,
        }
    }

    /// Whether the same call may succeed later without any change by the caller.
    ///
    /// True for lack of a resource that others give back (memory, streams, time) and for faults and
    /// failed compiles or driver calls, which do not harm later work. False for misuse and for a device that is lost.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Error::OutOfMemory { .. }
                | Error::OutOfHostMemory { .. }
                | Error::StreamsExhausted { .. }
                | Error::Busy { .. }
                | Error::NoTurn { .. }
                | Error::Timeout { .. }
                | Error::Fault { .. }
                | Error::Compile { .. }
                | Error::Driver { .. }
        )
    }
}
