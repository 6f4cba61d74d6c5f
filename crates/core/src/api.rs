//! The interface as `millstream` shows it: what everybody needs in front, the rest in modules.
//!
//! The crates of this workspace use the names in this crate's root. The tree stands here, and not in `millstream`, so
//! that examples in these docs can use the paths that a reader has.

pub use crate::{Config, DType, Device, Error, Event, Result, Stream, Timepoint};

/// Going deeper: what a device computes, one Command at a time.
///
/// Tensors and layers make Commands themselves. Write them yourself to say what runs on which stream, in which memory.
/// A Command is an operation ([`Op`](crate::Op)) with its operands; its constructors check everything. A stream runs Commands in
/// the order in which they are recorded.
///
/// ```
/// # millstream_core::doctest!();
/// use millstream::command::{BinaryOp, Command};
/// use millstream::memory::Layout;
/// use millstream::{DType, Device};
///
/// # fn main() -> millstream::Result<()> {
/// let device = Device::cpu()?;
/// let stream = device.stream()?;
/// let layout = Layout::contiguous(DType::F32, &[4])?;
/// let (a, b) = (stream.allocate(layout.dense_bytes())?, stream.allocate(layout.dense_bytes())?);
/// let (a, b) = (a.operand(layout), b.operand(layout));
///
/// stream.upload(a, &[1f32, 2.0, 3.0, 4.0])?;
/// stream.record(Command::fill(b, 10.0f32)?)?;
/// stream.record(Command::binary(BinaryOp::Mul, b, a, b)?)?;
/// println!("{:?}", stream.download(b)?.read::<f32>()?); // [10.0, 20.0, 30.0, 40.0]
/// # Ok(())
/// # }
/// ```
pub mod command {
    pub use crate::command::*;
}

/// How a device is opened and how it is.
pub mod device {
    pub use crate::{DeviceBuilder, Exhaustion, Health, HealthState, MAX_STREAMS};
}

/// Element types on the host: which Rust type is which [`DType`], and how numbers are rounded.
pub mod dtype {
    pub use crate::{
        Element, Scalar, SmallFloat, as_bytes, bf16_from_f64, f16_from_f64, f32_round_to_odd,
        from_bytes,
    };
}

/// What stands in an [`Error`].
pub mod error {
    pub use crate::{Cause, MissingOperator, WeightProblem};
}

/// Memory of devices and of the host, and how tensors lie in it.
pub mod memory {
    pub use crate::{Buffer, HostBytes, Layout, MAX_RANK, broadcast_shapes};
}

/// Lists of Commands that are checked once and then only run.
///
/// `nn::Plan` makes one of tensor code.
pub mod plan {
    pub use crate::{Plan, PlanBuilder, PlanPart, Slot};
}

/// What ran when, and for which layer.
pub mod profiler {
    pub use crate::profiler::*;
    pub use crate::{LayerName, LayerScope};
}

/// Random numbers that depend on a seed and a place alone.
pub mod random {
    pub use crate::{Generator, philox};
}

/// Figures of devices and streams.
pub mod stats {
    pub use crate::{Counters, MemoryStats};
}

/// What streams give: results on their way to the host, and what async code awaits.
pub mod stream {
    pub use crate::{Download, DownloadFuture, Ready, TimepointFuture};
}

/// For who writes a device: what it implements, what the runtime hands it, and a fake one for tests without hardware.
pub mod backend {
    pub use crate::{
        Backend, BackendEntry, BackendInfo, Batch, BoundCommand, Fault, HostBounds, HostPiece,
        HostPool, Outcome, Progress, Queue, QueueContext, RawBuffer, Segment, StreamMemory,
        WaitFor, fake, inventory, panic_message, sync,
    };
}

/// For examples in these docs, which a reader pastes into a program that depends on `millstream`: its name, and a device
/// that stands in for the CPU. It computes nothing, so examples print values and do not compare them.
#[doc(hidden)]
#[macro_export]
macro_rules! doctest {
    () => {
        use $crate::api as millstream;

        $crate::inventory::submit! { $crate::fake::STAND_IN }
    };
}
