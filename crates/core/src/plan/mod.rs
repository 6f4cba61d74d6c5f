//! Plans: lists of Commands that are checked and laid out once, and then only run.
//!
//! Commands of a plan name *slots* instead of buffers: inputs and outputs, which each run provides; settled weights,
//! which the plan keeps alive; and temporary values, which lie in one block of memory per run, the arena.
//! [`PlanBuilder`] takes the Commands, the planner lays out the arena, and an independent check verifies the result.

mod builder;
mod check;
mod part;
mod planner;
#[cfg(all(test, not(loom)))]
mod tests;
mod trace;

use std::fmt;
use std::sync::Arc;

pub use builder::PlanBuilder;
pub use part::PlanPart;
pub(crate) use part::{Base, Bases, Part};
pub use trace::{Trace, TracedCommand, TracedValue};
pub(crate) use trace::{is_traced, note_allocation, note_command, refuse_traced};

use crate::command::BufferLike;
use crate::device::DeviceInner;
use crate::{Buffer, Device, Layout, Operand, Result};

/// The most Commands of a plan. The time to lay it out grows with their square.
const MAX_COMMANDS: usize = 1 << 14;

/// The most inputs, and the most outputs, of a plan.
const MAX_ENDS: usize = 1 << 11;

/// A list of Commands that was checked and laid out once, to be run any number of times with
/// [`Stream::run`](crate::Stream::run).
///
/// A run takes the stream's lock once, collects the dependencies of its inputs and outputs only, and checks nothing
/// that was checked when the plan was made. All temporary values of a run lie in one block of memory.
///
/// # Thread safety
///
/// A plan does not change. Any number of threads may run it at once, each on its own stream: they share the weights,
/// and each run has its own arena. Clones are the same plan.
///
/// # Example
///
/// ```
/// # millstream_core::doctest!();
/// # fn main() -> millstream::Result<()> {
/// use millstream::command::{BinaryOp, Command, UnaryOp};
/// use millstream::memory::Layout;
/// use millstream::plan::Plan;
/// use millstream::{DType, Device};
///
/// let device = Device::cpu()?;
/// let row = Layout::contiguous(DType::F32, &[16])?;
///
/// let mut plan = Plan::builder(&device);
/// let (x, y) = (plan.input(row), plan.output(row));
/// let squared = plan.temporary(row.dense_bytes());
/// plan.record(Command::binary(BinaryOp::Mul, squared.operand(row), x.operand(row), x.operand(row))?)?;
/// plan.record(Command::unary(UnaryOp::Relu, y.operand(row), squared.operand(row))?)?;
/// let plan = plan.finish()?;
///
/// let stream = device.stream()?;
/// let [input, output] = [stream.allocate(row.dense_bytes())?, stream.allocate(row.dense_bytes())?];
/// stream.upload(input.operand(row), &[2f32; 16])?;
/// stream.run(&plan, &[&input], &[&output])?;
/// # stream.synchronize()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Plan(Arc<Inner>);

struct Inner {
    number: u64,
    device: &'static DeviceInner,
    inputs: Vec<Layout>,
    outputs: Vec<Layout>,
    /// Which outputs are read before they are written.
    states: Vec<usize>,
    /// Kept alive; Commands have their addresses.
    weights: Vec<Buffer>,
    arena: usize,
    parts: Vec<Part>,
}

impl Plan {
    /// A plan for a device, to be filled with Commands.
    pub fn builder(device: &Device) -> PlanBuilder {
        PlanBuilder::new(device.inner())
    }

    /// Makes a plan by tracing: runs `work` once and collects what it records on the calling thread.
    ///
    /// `work` gets buffers of zeros, one per layout of `inputs`, and returns its results. Uploads, and values computed
    /// from them alone, become weights of the plan. `nn` has the same for tensors.
    ///
    /// # Errors
    ///
    /// The error of `work`; values that it reads on the host, since they belong to this one run; a buffer that it
    /// neither made nor [settled](Buffer::settle); Commands that another thread records for it.
    pub fn trace<E: From<crate::Error>>(
        device: &Device,
        inputs: &[Layout],
        work: impl FnOnce(&[Buffer]) -> Result<Vec<Operand<Buffer>>, E>,
    ) -> Result<Self, E> {
        Ok(Trace::of(device, inputs, work)?.into_plan()?)
    }

    /// A number that is unique in this process.
    pub fn number(&self) -> u64 {
        self.0.number
    }

    /// The device that it is for.
    pub fn device(&self) -> Device {
        Device::from_inner(self.0.device)
    }

    /// The layout of each input.
    pub fn inputs(&self) -> &[Layout] {
        &self.0.inputs
    }

    /// The layout of each output.
    pub fn outputs(&self) -> &[Layout] {
        &self.0.outputs
    }

    /// How many Commands a run is.
    pub fn commands(&self) -> usize {
        self.parts().iter().map(Part::commands).sum()
    }

    /// Bytes of temporary memory that a run takes.
    pub fn arena_bytes(&self) -> usize {
        self.0.arena
    }

    /// Bytes of the weights that it keeps alive; other plans and layers may share them.
    pub fn weight_bytes(&self) -> usize {
        self.0.weights.iter().map(Buffer::bytes).sum()
    }

    pub(crate) fn states(&self) -> &[usize] {
        &self.0.states
    }

    pub(crate) fn device_inner(&self) -> &'static DeviceInner {
        self.0.device
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.0.parts
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, commands, arena) = (self.number(), self.commands(), self.arena_bytes());
        write!(f, "Plan({number}: {commands} Commands, {arena} bytes of arena)")
    }
}

/// A placeholder for a buffer. Commands of a plan name slots where others name buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    plan: u64,
    index: u32,
    bytes: usize,
}

impl Slot {
    /// This slot with a layout, as an operand of a Command.
    pub fn operand(self, layout: Layout) -> Operand<Slot> {
        Operand::new(self, layout)
    }

    fn index(self) -> usize {
        self.index as usize
    }
}

impl BufferLike for Slot {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn identity(&self) -> usize {
        self.index()
    }
}
