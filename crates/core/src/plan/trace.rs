//! Tracing: writes down the Commands that code records. What a traced thread records runs as usual.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use crate::stream::StreamInner;
use crate::{Buffer, Command, Device, Error, LayerName, Layout, Op, Operand, Result, Stream};

use super::{Plan, Slot};

thread_local! {
    /// Whether there is a tracer: all that recording has to check.
    static TRACED: Cell<bool> = const { Cell::new(false) };
    static TRACER: RefCell<Option<Tracer>> = const { RefCell::new(None) };
}

/// An allocation of a block; see `Block::allocation`.
type Allocation = (usize, u64);

struct Tracer {
    device: Device,
    /// The latest value of each allocation.
    known: HashMap<Allocation, usize>,
    values: Vec<Value>,
    commands: Vec<Noted>,
}

struct Noted {
    command: Command<Name>,
    layer: Option<LayerName>,
    /// It gives the same result in every run.
    constant: bool,
}

/// The index of a value.
#[derive(Clone, Copy, PartialEq)]
struct Name(usize);

struct Value {
    bytes: usize,
    origin: Origin,
    /// Kept where its contents may be needed.
    buffer: Option<Buffer>,
}

#[derive(Clone, Copy, PartialEq)]
enum Origin {
    Input(usize),
    /// Allocated while tracing, and whether only constant Commands have written it so far.
    Made {
        constant: bool,
    },
    /// Existed before.
    Foreign,
}

impl Value {
    fn into_traced(self, used: bool) -> Result<TracedValue> {
        let Value { bytes, origin, buffer } = self;
        match (origin, buffer) {
            (Origin::Input(input), _) => Ok(TracedValue::Input(input)),
            (Origin::Foreign, Some(buffer)) if used => {
                if !buffer.is_settled() {
                    return invalid(
                        "a buffer is read that the traced code did not make and that may still change: settle \
                         it, or make it an input",
                    );
                }
                Ok(TracedValue::Weights(buffer))
            }
            (Origin::Made { constant: true }, Some(buffer)) if used => {
                buffer.settle()?;
                Ok(TracedValue::Weights(buffer))
            }
            _ => Ok(TracedValue::Made { bytes }),
        }
    }

    fn is_constant(&self) -> bool {
        matches!(self.origin, Origin::Foreign | Origin::Made { constant: true })
    }
}

fn invalid<T>(reason: &str) -> Result<T> {
    Err(Error::Invalid { op: "trace", reason: reason.into() })
}

/// Whether the calling thread is traced: what it does must be Commands then.
pub(crate) fn is_traced() -> bool {
    TRACED.get()
}

/// To be called for every allocation of the calling thread.
#[inline]
pub(crate) fn note_allocation(buffer: &Buffer) {
    if TRACED.get() {
        with_tracer(|tracer| tracer.allocated(buffer));
    }
}

/// To be called for every Command that the calling thread is about to record.
///
/// # Errors
///
/// The thread is traced, and this Command cannot be a part of a plan.
#[inline]
pub(crate) fn note_command(stream: &'static StreamInner, command: &Command<&Buffer>) -> Result<()> {
    if TRACED.get() { note_traced(stream, command) } else { Ok(()) }
}

#[cold]
fn note_traced(stream: &'static StreamInner, command: &Command<&Buffer>) -> Result<()> {
    with_tracer(|tracer| tracer.recorded(stream, command)).unwrap_or(Ok(()))
}

/// # Errors
///
/// The calling thread is traced, which this operation cannot be.
pub(crate) fn refuse_traced(op: &'static str) -> Result<()> {
    if !TRACED.get() {
        return Ok(());
    }
    let reason = "a plan is traced on this thread, of which this cannot be a part".into();
    Err(Error::Invalid { op, reason })
}

fn with_tracer<R>(work: impl FnOnce(&mut Tracer) -> R) -> Option<R> {
    TRACER.with_borrow_mut(|tracer| tracer.as_mut().map(work))
}

/// The time during which a thread is traced.
struct Tracing;

impl Tracing {
    fn begin(tracer: Tracer) -> Self {
        TRACER.set(Some(tracer));
        TRACED.set(true);
        Tracing
    }

    fn end(self) -> Option<Tracer> {
        TRACED.set(false);
        TRACER.take()
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        // Buffers of the tracer are freed when nothing is borrowed.
        TRACED.set(false);
        drop(TRACER.take());
    }
}

/// What code recorded, for those who make something else of it than a [`Plan`]: Commands over values, which are numbered.
///
/// What is computed from uploads and weights alone was computed, and is among the [weights](TracedValue::Weights).
#[derive(Debug)]
pub struct Trace {
    device: Device,
    inputs: Vec<Layout>,
    values: Vec<TracedValue>,
    commands: Vec<TracedCommand>,
    results: Vec<(usize, Layout)>,
}

/// Where the bytes of a value come from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TracedValue {
    /// The input of this number.
    Input(usize),
    /// Settled memory.
    Weights(Buffer),
    /// The Commands of the trace that write it.
    Made {
        /// How many bytes it has.
        bytes: usize,
    },
}

/// A Command of a [`Trace`]. Its operands name values by their number.
#[derive(Clone, Debug)]
pub struct TracedCommand {
    /// What is computed.
    pub command: Command<usize>,
    /// The layer that recorded it.
    pub layer: Option<LayerName>,
}

impl Trace {
    /// Runs `work` once and writes down what it records on the calling thread. `work` gets buffers of zeros, one per layout
    /// of `inputs`, and returns its results.
    ///
    /// # Errors
    ///
    /// As for [`Plan::trace`].
    pub fn of<E: From<Error>>(
        device: &Device,
        inputs: &[Layout],
        work: impl FnOnce(&[Buffer]) -> Result<Vec<Operand<Buffer>>, E>,
    ) -> Result<Self, E> {
        refuse_traced("trace")?;
        let stream = Stream::current(device)?;
        let mut buffers = Vec::with_capacity(inputs.len());
        for layout in inputs {
            let bytes = layout.extent_bytes();
            let buffer = stream.allocate(bytes)?;
            let zeros = Layout::contiguous(crate::DType::U8, &[bytes])?;
            stream.record(Command::fill(buffer.operand(zeros), 0i32)?)?;
            buffers.push(buffer);
        }
        let tracing = Tracing::begin(Tracer::new(*device, &buffers));
        let results = work(&buffers)?;
        let Some(tracer) = tracing.end() else {
            return Err(Error::Invalid { op: "trace", reason: "nothing was traced".into() }.into());
        };
        Ok(tracer.into_trace(inputs, &results)?)
    }

    /// The device that the Commands are for.
    pub fn device(&self) -> Device {
        self.device
    }

    /// The values that Commands and results name.
    pub fn values(&self) -> &[TracedValue] {
        &self.values
    }

    /// The Commands, in the order in which they were recorded.
    pub fn commands(&self) -> &[TracedCommand] {
        &self.commands
    }

    /// Each result: its value, and how it lies in it.
    pub fn results(&self) -> &[(usize, Layout)] {
        &self.results
    }

    pub(super) fn into_plan(self) -> Result<Plan> {
        let mut plan = Plan::builder(&self.device);
        let input_slots: Vec<Slot> = self.inputs.iter().map(|layout| plan.input(*layout)).collect();
        let mut slots: Vec<Option<Slot>> = vec![None; self.values.len()];
        let mut outputs = Vec::with_capacity(self.results.len());
        for &(value, layout) in &self.results {
            let output = plan.output(Layout::contiguous(layout.dtype(), layout.shape())?);
            // A value that is an output needs no copy.
            match self.values[value] {
                TracedValue::Made { bytes }
                    if slots[value].is_none() && is_whole(&layout, bytes) =>
                {
                    slots[value] = Some(output);
                }
                _ => outputs.push((output, value, layout)),
            }
        }
        let mut slot_of = |plan: &mut super::PlanBuilder, index: usize| -> Result<Slot> {
            if let Some(slot) = slots[index] {
                return Ok(slot);
            }
            let slot = match &self.values[index] {
                TracedValue::Input(input) => input_slots[*input],
                TracedValue::Weights(buffer) => plan.weights(buffer)?,
                TracedValue::Made { bytes } => plan.temporary(*bytes),
            };
            slots[index] = Some(slot);
            Ok(slot)
        };
        for TracedCommand { command, layer } in self.commands {
            let command = command.try_bind(|&value| slot_of(&mut plan, value))?;
            plan.record_for(command, layer)?;
        }
        for (output, value, layout) in outputs {
            let from = slot_of(&mut plan, value)?.operand(layout);
            let to = Layout::contiguous(layout.dtype(), layout.shape())?;
            plan.record_for(Command::copy(output.operand(to), from)?, None)?;
        }
        plan.finish()
    }
}

/// Whether a layout is all of a buffer of so many bytes, in order.
fn is_whole(layout: &Layout, bytes: usize) -> bool {
    layout.is_contiguous() && layout.start_bytes() == 0 && layout.extent_bytes() == bytes
}

impl Tracer {
    fn new(device: Device, inputs: &[Buffer]) -> Self {
        let mut tracer =
            Self { device, known: HashMap::new(), values: Vec::new(), commands: Vec::new() };
        for (index, buffer) in inputs.iter().enumerate() {
            tracer.add(buffer, Origin::Input(index), None);
        }
        tracer
    }

    fn add(&mut self, buffer: &Buffer, origin: Origin, kept: Option<Buffer>) -> usize {
        self.values.push(Value { bytes: buffer.bytes(), origin, buffer: kept });
        self.known.insert(buffer.block().allocation(), self.values.len() - 1);
        self.values.len() - 1
    }

    fn allocated(&mut self, buffer: &Buffer) {
        if buffer.device() == self.device {
            self.add(buffer, Origin::Made { constant: true }, None);
        }
    }

    /// The value in a buffer. A new one is kept alive, so that its memory is not reused.
    fn value(&mut self, buffer: &Buffer) -> usize {
        match self.known.get(&buffer.block().allocation()) {
            Some(&value) => value,
            None => self.add(buffer, Origin::Foreign, Some(buffer.clone())),
        }
    }

    fn recorded(&mut self, stream: &'static StreamInner, command: &Command<&Buffer>) -> Result<()> {
        if stream.device() != self.device {
            return invalid("a Command of another device cannot be a part of the plan");
        }
        if let Op::Download { .. } = command.op() {
            return invalid(
                "values are read on the host, which a plan cannot repeat: return them from the traced code, \
                 and read them after a run",
            );
        }
        let named = command.clone().bind(|buffer| Name(self.value(buffer)));
        let of_constants = named.inputs().iter().all(|input| self.of(input).is_constant());
        let uploads = matches!(command.op(), Op::Upload { .. });
        let constant = of_constants
            && (uploads || !named.inputs().is_empty())
            && named.outputs().iter().all(|output| self.of(output).is_constant());
        for (output, operand) in named.outputs().iter().zip(command.outputs()) {
            let value = &mut self.values[output.buffer.0];
            match value.origin {
                Origin::Made { constant: true } if constant => {
                    value.buffer.get_or_insert_with(|| operand.buffer.clone());
                }
                Origin::Made { .. } => {
                    value.origin = Origin::Made { constant: false };
                    value.buffer = None;
                }
                Origin::Input(_) => {
                    return invalid("an input is written to: give the result memory of its own");
                }
                Origin::Foreign => {
                    return invalid(
                        "memory is written that was not allocated by the traced code: return the result instead",
                    );
                }
            }
        }
        self.commands.push(Noted { command: named, layer: LayerName::current(), constant });
        Ok(())
    }

    fn of(&self, operand: &Operand<Name>) -> &Value {
        &self.values[operand.buffer.0]
    }

    /// Marks Commands as not constant if they use, or share a value with, something that is not.
    fn spread_changes(&mut self) {
        let mut changed = true;
        while changed {
            changed = false;
            for traced in self.commands.iter_mut().filter(|traced| traced.constant) {
                let mut names = traced.command.accesses().map(|(_, operand)| operand.buffer);
                if names.all(|name| self.values[name.0].is_constant()) {
                    continue;
                }
                (traced.constant, changed) = (false, true);
                for output in traced.command.outputs() {
                    self.values[output.buffer.0].origin = Origin::Made { constant: false };
                }
            }
        }
    }

    fn into_trace(mut self, inputs: &[Layout], results: &[Operand<Buffer>]) -> Result<Trace> {
        let results: Vec<(usize, Layout)> =
            results.iter().map(|result| (self.value(&result.buffer), result.layout)).collect();
        self.spread_changes();
        let noted = self.commands.into_iter().filter(|noted| !noted.constant);
        let commands: Vec<TracedCommand> = noted
            .map(|Noted { command, layer, .. }| TracedCommand {
                command: command.bind(|name| name.0),
                layer,
            })
            .collect();
        // What only constant Commands read need not be settled.
        let mut used = vec![false; self.values.len()];
        results.iter().for_each(|&(value, _)| used[value] = true);
        for traced in &commands {
            traced.command.accesses().for_each(|(_, operand)| used[operand.buffer] = true);
        }
        let values = self.values.into_iter().zip(used);
        let values = values.map(|(value, used)| value.into_traced(used)).collect::<Result<_>>()?;
        Ok(Trace { device: self.device, inputs: inputs.to_vec(), values, commands, results })
    }
}
