//! Batches: what a queue gets, and how it says what became of each Command.

use smallvec::SmallVec;

use super::WaitFor;
use crate::fault::{self, Fault, PlacedValue, Value};
use crate::plan::Bases;
use crate::{Access, BoundCommand, Error, LayerName, Op, OpKind, PlanPart, Progress};

/// Commands that are submitted together. They run in order, after the batches before them.
///
/// A queue says of every Command what became of it, in the order in which they run: of a batch when all
/// batches before it on its stream and everything that it waits for have been dealt with, and before it
/// [advances](Progress::advance) over the batch. A Command that reads what failed is not run (or, where the
/// device has run it already, its results do not count): [`inherit`](Self::inherit). One that cannot be done
/// [fails](Self::fail), and one that was done [succeeds](Self::succeed). [`resolve`](Self::resolve) is all
/// three for a whole batch.
pub struct Batch {
    /// The commands; the first has sequence number `first`, the last has `last`.
    pub commands: Vec<BoundCommand>,
    /// The sequence number of the first command.
    pub first: u64,
    /// The sequence number of the last command.
    pub last: u64,
    /// Work of other streams that must pass first. All of it is submitted already.
    pub waits: SmallVec<[WaitFor; 2]>,
    /// The submitting thread is about to wait for this batch.
    pub caller_waits: bool,
    layers: Vec<LayerRun>,
    /// The operands of all commands but a plan's, one after the other; none where no stream has recorded them.
    values: Values,
    plan: Option<Box<Planned>>,
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch")
            .field("first", &self.first)
            .field("last", &self.last)
            .field("waits", &self.waits)
            .field("caller_waits", &self.caller_waits)
            .finish_non_exhaustive()
    }
}

/// The Commands of a plan in a batch, and what else of its lists is theirs. In a box, since batches are moved.
struct Planned {
    part: PlanPart,
    /// How many of the lists' layers there are up to their end.
    layers: usize,
}

/// Commands that one layer has recorded, one after the other.
#[derive(Clone, Copy)]
pub(crate) struct LayerRun {
    /// The index of the first; the last is the one before the next run.
    first: u32,
    layer: Option<LayerName>,
}

/// The lists of a batch, for using their memory again.
#[derive(Default)]
pub(crate) struct BatchLists {
    pub commands: Vec<BoundCommand>,
    pub values: Values,
    layers: Vec<LayerRun>,
    /// The layer of the last command.
    layer: Option<LayerName>,
    plan: Option<Box<Planned>>,
}

/// Operands of a usual Command.
const OPERANDS: usize = 4;

/// Those of a batch of one need no memory of their own.
type Values = SmallVec<[Value; OPERANDS]>;

/// The operands of one Command.
pub(crate) type PlacedValues = SmallVec<[PlacedValue; OPERANDS]>;

impl BatchLists {
    /// Makes room in lists that are empty and have none.
    pub fn make_room(&mut self, commands: usize) {
        self.commands = Vec::with_capacity(commands);
        if commands > 1 {
            self.values = Values::with_capacity(commands.saturating_mul(OPERANDS));
        }
    }

    /// Says which layer the next command is of. Most are of the same as the one before.
    #[inline]
    pub fn set_layer(&mut self, layer: Option<LayerName>) {
        if layer != self.layer {
            self.layer = layer;
            // A batch has few thousand commands.
            self.layers.push(LayerRun { first: self.commands.len() as u32, layer });
        }
    }

    pub fn len(&self) -> usize {
        self.commands.len()
    }

    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Says that the last Commands are those of a plan.
    pub fn set_plan(&mut self, part: PlanPart) {
        self.plan = Some(Box::new(Planned { part, layers: self.layers.len() }));
    }

    pub fn has_plan(&self) -> bool {
        self.plan.is_some()
    }

    /// Gives the Commands of the plan their memory.
    pub fn patch_plan(&mut self, bases: Bases) {
        if let Some(plan) = &mut self.plan {
            let part = &mut plan.part;
            let first = part.commands.start;
            part.patch(&mut self.commands[first..], bases);
        }
    }

    /// What kinds of Commands these are.
    pub fn kinds(&self) -> impl Iterator<Item = OpKind> {
        let kind = |command: &BoundCommand| command.op().kind();
        let part = self.plan.as_ref().map(|plan| &plan.part);
        // Those of a plan are known without a look at them: they are large, and have not been touched for long.
        let (first, end) = part.map_or((0, 0), |part| (part.commands.start, part.commands.end));
        let planned = part.map_or(&[][..], |part| &part.facts.kinds);
        let before = self.commands[..first].iter().map(kind);
        before.chain(planned.iter().copied()).chain(self.commands[end..].iter().map(kind))
    }

    /// The numbers of the plan and of its part, for lists that hold nothing else.
    pub fn plan_key(&self) -> Option<(u64, u32)> {
        self.plan.as_ref().map(|plan| (plan.part.plan, plan.part.part))
    }

    /// Leaves the Commands of a plan, where these were the first, and nothing else.
    fn cut_behind_plan(&mut self) -> bool {
        let Some(plan) = self.plan.as_ref().filter(|plan| plan.part.commands.start == 0) else {
            return false;
        };
        self.commands.truncate(plan.part.commands.end);
        self.values.clear();
        self.layers.truncate(plan.layers);
        self.layer = self.layers.last().and_then(|run| run.layer);
        true
    }
}

impl Batch {
    /// A batch of Commands that no stream has recorded, for tests of queues.
    pub fn new(commands: Vec<BoundCommand>, first: u64, waits: &[WaitFor]) -> Self {
        let mut lists = BatchLists { commands, ..BatchLists::default() };
        Self::from_lists(&mut lists, first, SmallVec::from_slice(waits), false)
    }

    /// Takes what is in the lists.
    #[inline]
    pub(crate) fn from_lists(
        lists: &mut BatchLists,
        first: u64,
        waits: SmallVec<[WaitFor; 2]>,
        caller_waits: bool,
    ) -> Self {
        let commands = std::mem::take(&mut lists.commands);
        let values = std::mem::take(&mut lists.values);
        let layers = std::mem::take(&mut lists.layers);
        let plan = lists.plan.take();
        lists.layer = None;
        let last = (first + commands.len() as u64).saturating_sub(1);
        Self { commands, first, last, waits, caller_waits, layers, values, plan }
    }

    /// The lists, for using them again: empty, or with the Commands of a plan that they began with.
    pub(crate) fn into_lists(self) -> BatchLists {
        let Self { commands, layers, values, plan, .. } = self;
        let mut lists = BatchLists { commands, values, layers, layer: None, plan };
        if !lists.cut_behind_plan() {
            lists.commands.clear();
            lists.layers.clear();
            lists.values.clear();
            lists.plan = None;
        }
        lists
    }

    /// The Commands of a plan that are in this batch; at most one plan is.
    pub fn plan(&self) -> Option<&PlanPart> {
        self.plan.as_ref().map(|plan| &plan.part)
    }

    /// The operands of a Command as values; none where no stream has recorded it. Only asked for where
    /// something has failed, so their place is not written down.
    fn values(&self, index: usize) -> PlacedValues {
        let operands = |command: &BoundCommand| command.outputs().len() + command.inputs().len();
        let planned = self.plan().map_or(0..0, |part| part.commands.clone());
        if let Some(part) = self.plan().filter(|_| planned.contains(&index)) {
            return part.values(index - planned.start, operands(&self.commands[index]));
        }
        let before = self.commands[..index].iter().enumerate();
        let others = before.filter(|(other, _)| !planned.contains(other));
        let first = others.map(|(_, command)| operands(command)).sum::<usize>();
        let end = first + operands(&self.commands[index]);
        self.values.get(first..end).unwrap_or_default().iter().copied().map(Into::into).collect()
    }

    /// What the Command at `index` has to do; see [`Command::work`](crate::Command::work).
    pub fn work(&self, index: usize) -> u64 {
        let known = self
            .plan()
            .and_then(|part| part.facts.work.get(index.checked_sub(part.commands.start)?).copied());
        known.unwrap_or_else(|| self.commands[index].work())
    }

    /// The layer that recorded the Command at `index`, if any did.
    pub fn layer(&self, index: usize) -> Option<LayerName> {
        let runs = self.layers.partition_point(|run| run.first as usize <= index);
        self.layers.get(runs.checked_sub(1)?)?.layer
    }

    /// Whether something that the Command at `index` reads has failed. If so, what it should have made
    /// fails with it, and it need not be run.
    pub fn inherit(&self, index: usize, progress: &Progress) -> bool {
        if !fault::any() {
            return false;
        }
        let operands = self.commands[index].accesses().zip(self.values(index));
        let mut inputs = operands.filter(|((access, _), _)| *access == Access::Read);
        let Some(fault) = inputs.find_map(|((_, operand), value)| value.failed(&operand.layout))
        else {
            return false;
        };
        self.mark(index, &fault);
        progress.note_failure(self.first + index as u64, &fault, false);
        true
    }

    /// The Command at `index` failed: its outputs are not valid. Whoever reads them gets the error.
    pub fn fail(&self, index: usize, fault: impl Into<Fault>, progress: &Progress) {
        let fault = fault.into();
        self.mark(index, &fault);
        progress.note_failure(self.first + index as u64, &fault, true);
    }

    /// The Command at `index` ran: what it has made is there.
    pub fn succeed(&self, index: usize) {
        if !fault::any() {
            return;
        }
        for ((access, operand), value) in self.commands[index].accesses().zip(self.values(index)) {
            if access == Access::Write {
                value.overwrite(&operand.layout);
            }
        }
    }

    /// Says of all Commands, in order, what became of them; `failed` knows which of them failed by
    /// themselves.
    pub fn resolve(&self, progress: &Progress, mut failed: impl FnMut(usize) -> Option<Fault>) {
        for index in 0..self.commands.len() {
            if self.inherit(index, progress) {
                continue;
            }
            match failed(index) {
                Some(fault) => self.fail(index, fault, progress),
                None => self.succeed(index),
            }
        }
    }

    fn mark(&self, index: usize, fault: &Fault) {
        let command = &self.commands[index];
        if let Op::Download { target } = command.op() {
            target.fail(fault);
        }
        for ((access, operand), value) in command.accesses().zip(self.values(index)) {
            if access == Access::Write {
                value.fail(&operand.layout, fault);
            }
        }
    }

    /// The error of a Command that failed, with its name and the layer that recorded it.
    pub fn fault(&self, stream: u32, index: usize, message: &str) -> Error {
        Error::Fault {
            stream,
            sequence: self.first + index as u64,
            command: self.commands.get(index).map_or("batch", |command| command.op().name()),
            layer: self.layer(index).map(LayerName::as_str),
            message: message.into(),
        }
    }
}
