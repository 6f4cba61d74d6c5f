//! The interface of `millstream`: what everybody needs comes first, the rest is in modules.
//!
//! The crates of this workspace use the names in this crate's root. The modules are here, and not in `millstream`, so
//! that examples in these docs can use the same paths as a reader.

pub use crate::{Config, DType, Device, Error, Event, Result, Stream, Timepoint};

/// Going deeper: operations of a device, one at a time.
///
/// Tensors and layers make Commands themselves. Write them yourself to say what runs on which stream, in which memory.
/// A Command is an operation ([`Op`](crate::Op)) with its operands; its constructors check everything. A stream runs
/// Commands in the order in which they are recorded.
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

/// Opening devices, and their health.
pub mod device {
    pub use crate::{DeviceBuilder, Exhaustion, Health, HealthState, MAX_STREAMS};
}

/// Element types on the host, and rounding.
pub mod dtype {
    pub use crate::{
        Element, Scalar, SmallFloat, as_bytes, bf16_from_f64, f16_from_f64, f32_round_to_odd,
        from_bytes,
    };
}

/// Parts of an [`Error`].
pub mod error {
    pub use crate::{Cause, MissingOperator, WeightProblem};
}

/// Memory of devices and of the host, and layouts of tensors.
pub mod memory {
    pub use crate::{Buffer, HostBytes, Layout, MAX_RANK, broadcast_shapes};
}

/// Lists of Commands that are checked once and run many times.
///
/// `nn::Plan` makes a plan from code with tensors.
pub mod plan {
    pub use crate::{Plan, PlanBuilder, PlanPart, Slot, Trace, TracedCommand, TracedValue};
}

/// What ran when, and for which layer.
pub mod profiler {
    pub use crate::profiler::*;
    pub use crate::{LayerName, LayerScope};
}

/// Random numbers that depend on a seed and a position alone.
pub mod random {
    pub use crate::{Generator, philox};
}

/// Statistics of devices and streams.
pub mod stats {
    pub use crate::{Counters, MemoryStats};
}

/// Transfers to the host, and futures.
pub mod stream {
    pub use crate::{Download, DownloadFuture, Ready, TimepointFuture};
}

/// The traits of a device, for those who write one, and a fake device for tests.
pub mod backend {
    pub use crate::{
        Backend, BackendEntry, BackendInfo, Batch, BoundCommand, Fault, HostBounds, HostOwner,
        HostPiece, HostPool, Outcome, ProbeEntry, ProbeOptions, ProbeOutcome, ProbeRow, Progress,
        Queue, QueueContext, RawBuffer, Reclaim, Segment, StreamMemory, WaitFor, fake, inventory,
        panic_message, sync,
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
