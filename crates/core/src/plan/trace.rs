//! Tracing: makes plans from code that records Commands. What a traced thread records runs as usual, and is added to
//! the plan.

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
    commands: Vec<Traced>,
}

struct Traced {
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

pub(super) fn trace<E: From<Error>>(
    device: &Device,
    inputs: &[Layout],
    work: impl FnOnce(&[Buffer]) -> Result<Vec<Operand<Buffer>>, E>,
) -> Result<Plan, E> {
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
    Ok(tracer.into_plan(inputs, &results)?)
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
        self.commands.push(Traced { command: named, layer: LayerName::current(), constant });
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

    fn into_plan(mut self, inputs: &[Layout], results: &[Operand<Buffer>]) -> Result<Plan> {
        let results: Vec<(usize, Layout)> =
            results.iter().map(|result| (self.value(&result.buffer), result.layout)).collect();
        self.spread_changes();
        let mut plan = Plan::builder(&self.device);
        let mut slots: Vec<Option<Slot>> = vec![None; self.values.len()];
        let input_slots: Vec<Slot> = inputs.iter().map(|layout| plan.input(*layout)).collect();
        let mut outputs = Vec::with_capacity(results.len());
        for (value, layout) in results {
            let output = plan.output(Layout::contiguous(layout.dtype(), layout.shape())?);
            let Value { bytes, origin, .. } = self.values[value];
            let whole = layout.is_contiguous()
                && layout.start_bytes() == 0
                && layout.extent_bytes() == bytes;
            // A value that is an output needs no copy.
            if whole && origin == (Origin::Made { constant: false }) && slots[value].is_none() {
                slots[value] = Some(output);
            } else {
                outputs.push((output, value, layout));
            }
        }
        let mut slot_of = |plan: &mut super::PlanBuilder, index: usize| -> Result<Slot> {
            if let Some(slot) = slots[index] {
                return Ok(slot);
            }
            let Value { bytes, origin, buffer } = &self.values[index];
            let slot = match (origin, buffer) {
                (Origin::Input(input), _) => input_slots[*input],
                (Origin::Foreign, Some(buffer)) if !buffer.is_settled() => {
                    return invalid(
                        "a buffer is read that the traced code did not make and that may still change: settle \
                         it, or make it an input",
                    );
                }
                (Origin::Made { constant: true }, Some(buffer)) => {
                    buffer.settle()?;
                    plan.weights(buffer)?
                }
                (Origin::Foreign, Some(buffer)) => plan.weights(buffer)?,
                _ => plan.temporary(*bytes),
            };
            slots[index] = Some(slot);
            Ok(slot)
        };
        for Traced { command, layer, .. } in
            self.commands.into_iter().filter(|traced| !traced.constant)
        {
            let command = command.try_bind(|name| slot_of(&mut plan, name.0))?;
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
