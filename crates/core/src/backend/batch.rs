//! Batches: what a queue gets, and how it reports the outcome of each Command.

use smallvec::SmallVec;

use super::WaitFor;
use crate::fault::{self, Fault, PlacedValue, Value};
use crate::memory::ArenaLease;
use crate::plan::Bases;
use crate::{Access, BoundCommand, Error, LayerName, Op, OpKind, PlanPart, Progress};

/// Commands that are submitted together. They run in order, after the batches before them.
///
/// A queue reports the outcome of every Command, in the order in which they run. It reports a batch after all
/// earlier batches of the stream and everything that the batch waits for, and before it
/// [advances](Progress::advance) past the batch:
///
/// - A Command that reads a failed value does not run, or its results do not count if the device has run it
///   already: [`inherit`](Self::inherit).
/// - A Command that cannot run [fails](Self::fail).
/// - A Command that ran [succeeds](Self::succeed).
///
/// [`resolve`](Self::resolve) does all of this for a whole batch.
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
    /// The operands of all Commands except a plan's, in order. Empty for Commands that no stream has recorded.
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

/// The Commands of a plan in a batch. Boxed, since batches are moved.
struct Planned {
    part: PlanPart,
    /// On a device that binds arenas late; see [`Batch::bind_arena`].
    arena: Option<ArenaLease>,
    /// How many entries of `layers` belong to them and to what comes before.
    layers: usize,
}

/// Consecutive Commands of one layer.
#[derive(Clone, Copy)]
pub(crate) struct LayerRun {
    /// The index of the first Command. The run ends where the next one begins.
    first: u32,
    layer: Option<LayerName>,
}

/// The lists of a batch, whose memory is reused.
#[derive(Default)]
pub(crate) struct BatchLists {
    pub commands: Vec<BoundCommand>,
    pub values: Values,
    layers: Vec<LayerRun>,
    /// The layer of the last command.
    layer: Option<LayerName>,
    plan: Option<Box<Planned>>,
}

/// How many operands a Command usually has.
const OPERANDS: usize = 4;

/// A batch of one Command needs no memory for them.
type Values = SmallVec<[Value; OPERANDS]>;

/// The operands of one Command.
pub(crate) type PlacedValues = SmallVec<[PlacedValue; OPERANDS]>;

impl BatchLists {
    /// Reserves memory in lists that have none.
    pub fn make_room(&mut self, commands: usize) {
        self.commands = Vec::with_capacity(commands);
        if commands > 1 {
            self.values = Values::with_capacity(commands.saturating_mul(OPERANDS));
        }
    }

    /// Sets the layer of the next Command. Most have the same as the one before.
    #[inline]
    pub fn set_layer(&mut self, layer: Option<LayerName>) {
        if layer != self.layer {
            self.layer = layer;
            // A batch has far fewer Commands than that has numbers.
            self.layers.push(LayerRun { first: self.commands.len() as u32, layer });
        }
    }

    pub fn len(&self) -> usize {
        self.commands.len()
    }

    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Marks the last Commands as those of a plan.
    pub fn set_plan(&mut self, part: PlanPart) {
        self.plan = Some(Box::new(Planned { part, arena: None, layers: self.layers.len() }));
    }

    pub fn has_plan(&self) -> bool {
        self.plan.is_some()
    }

    /// How many Commands are none of a plan.
    #[inline]
    pub fn unplanned(&self) -> usize {
        let planned = self.plan.as_ref().map_or(0, |plan| plan.part.commands.len());
        self.commands.len() - planned
    }

    /// How many Commands a batch like this one adds to empty lists. A plan at its beginning comes with lists of its own.
    pub fn room(&self) -> usize {
        match &self.plan {
            Some(plan) if plan.part.commands.start == 0 => self.unplanned(),
            _ => self.commands.len(),
        }
    }

    /// Writes this run's addresses into the Commands of the plan.
    pub fn patch_plan(&mut self, bases: Bases, arena: Option<ArenaLease>) {
        if let Some(plan) = &mut self.plan {
            let first = plan.part.commands.start;
            plan.part.patch(&mut self.commands[first..], bases, arena.is_some());
            plan.arena = arena;
        }
    }

    /// What kinds of Commands these are.
    pub fn kinds(&self) -> impl Iterator<Item = OpKind> {
        let kind = |command: &BoundCommand| command.op().kind();
        let part = self.plan.as_ref().map(|plan| &plan.part);
        // The kinds of a plan are stored: its Commands are large and no longer in the cache.
        let (first, end) = part.map_or((0, 0), |part| (part.commands.start, part.commands.end));
        let planned = part.map_or(&[][..], |part| &part.facts.kinds);
        let before = self.commands[..first].iter().map(kind);
        before.chain(planned.iter().copied()).chain(self.commands[end..].iter().map(kind))
    }

    /// The numbers of the plan and of its part.
    pub fn plan_key(&self) -> Option<(u64, u32)> {
        self.plan.as_ref().map(|plan| (plan.part.plan, plan.part.part))
    }

    /// Keeps only the Commands of a plan, if the lists begin with them.
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

    /// The lists, for reuse: empty, or with the Commands of a plan if they began with them.
    pub(crate) fn into_lists(self) -> BatchLists {
        let Self { commands, layers, values, plan, .. } = self;
        let mut lists = BatchLists { commands, values, layers, layer: None, plan };
        // The arena goes to the next run.
        if let Some(plan) = &mut lists.plan {
            plan.arena = None;
        }
        if !lists.cut_behind_plan() {
            lists.commands.clear();
            lists.layers.clear();
            lists.values.clear();
            lists.plan = None;
        }
        lists
    }

    /// Gives the plan in this batch its arena, before its first Command runs; see
    /// [`Backend::arena_users`](crate::Backend::arena_users). Nothing if it has one, or needs none. The batch has the arena
    /// alone until it is [recycled](Progress::recycle). Called with no lock held.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], if more batches have arenas than was said. The Commands of the plan then have to
    /// [fail](Self::fail) with it.
    pub fn bind_arena(&mut self) -> crate::Result<()> {
        if let Some(plan) = &mut self.plan
            && let Some(lease) = &mut plan.arena
            && let Some(arena) = lease.bind()?
        {
            let first = plan.part.commands.start;
            plan.part.bind(&mut self.commands[first..], arena);
        }
        Ok(())
    }

    /// The plan in this batch, if there is one.
    pub fn plan(&self) -> Option<&PlanPart> {
        self.plan.as_ref().map(|plan| &plan.part)
    }

    /// The operands of a Command as values; none if no stream has recorded it. Only needed after a failure, so the
    /// position is computed and not stored.
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

    /// How much work the Command at `index` has; see [`Command::work`](crate::Command::work).
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

    /// Whether an input of the Command at `index` has failed. If so, its outputs are marked as failed, and it need
    /// not run.
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

    /// The Command at `index` ran: its outputs are valid.
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

    /// Reports the outcome of all Commands, in order. `failed` gives the fault of a Command that failed by itself.
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
