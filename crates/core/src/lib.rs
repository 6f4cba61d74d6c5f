//! The heart of Millstream: devices, streams, commands, memory and scheduling.
//!
//! Start with [`Device`], [`Stream`] and [`Command`]. A backend implements [`Backend`] and [`Queue`].
//! The [`fake`] backend runs nothing, but checks that the protocol between the two is kept.

pub mod api;
mod backend;
mod command;
mod counters;
mod device;
mod dtype;
mod error;
pub mod fake;
mod fault;
mod generator;
mod layer;
mod layout;
mod memory;
pub mod philox;
mod plan;
mod probe;
pub mod profiler;
mod progress;
mod rounding;
mod scalar;
mod size;
mod small_float;
mod stream;
pub mod sync;

pub use backend::{
    Backend, BackendEntry, BackendInfo, Batch, HostOwner, Queue, QueueContext, Reclaim, Segment,
    WaitFor,
};
pub use command::{
    Access, Activation, Alignment, AttentionParams, Axes, BinaryOp, BlockWeights, BoundCommand,
    BufferLike, Chain, ChainOp, ChainStep, ChainTerm, Command, ConvParams, CoordinateMode,
    DeformConvParams, Distribution, DynamicRange, Epilogue, GridMode, GridPadding, HostBytes,
    IotaParams, KeyWindow, MAX_CHAIN_INPUTS, MAX_CHAIN_STEPS, MAX_SPATIAL, Names, NearestRounding,
    Op, OpKind, Operand, Outputs, PackedAxis, PadMode, PadParams, PoolKind, PoolOrder, PoolParams,
    Quantized, RawBuffer, Recurrent, RecurrentActivation, RecurrentCell, RecurrentDirection,
    RecurrentExtras, RecurrentParams, RecurrentVariant, ReduceOp, Rescale, ResizeMode,
    ResizeParams, RoiAlignParams, RoiMode, ScatterReduction, TensorSpec, UnaryOp,
};
pub use command::{
    AttentionOperands, CacheWriteOperands, ConvIntegerOperands, ConvOperands, DeformConvOperands,
    DynamicAxes, DynamicQuantizeOperands, MatMulBlocksOperands, MatMulIntegerOperands,
    MatMulOperands, NormOperands, PoolOperands, QuantizeOperands, QuantizePart, RecurrentOperands,
    ReverseOperands, RopeOperands, StftOperands,
};
pub use counters::Counters;
pub use device::{Config, Device, DeviceBuilder, Exhaustion, Health, HealthState, MAX_STREAMS};
pub use dtype::{DType, Element, as_bytes, from_bytes};
pub use error::{Cause, Error, MissingOperator, Result, WeightProblem};
pub use fault::Fault;
pub use generator::Generator;
pub use layer::{LayerName, LayerScope};
pub use layout::{Layout, MAX_RANK, broadcast_shapes};
pub use memory::{Buffer, HostBounds, HostPiece, HostPool, MemoryStats, StreamMemory};
pub use plan::{Plan, PlanBuilder, PlanPart, Slot, Trace, TracedCommand, TracedValue};
pub use probe::{ProbeEntry, ProbeOptions, ProbeOutcome, ProbeRow};
pub use progress::{Outcome, Progress};
pub use rounding::{bf16_from_f64, f16_from_f64, f32_round_to_odd};
pub use scalar::Scalar;
pub use small_float::SmallFloat;
pub use stream::{Download, DownloadFuture, Event, Ready, Stream, Timepoint, TimepointFuture};

/// For backends that register themselves: the crate behind [`BackendEntry`].
pub use inventory;

/// The text of a caught panic.
pub fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("panic without a message")
}
