//! The Commands of a plan that go in one batch, and how a run gets them.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use super::Slot;
use crate::backend::{BatchLists, PlacedValues};
use crate::command::BufferLike;
use crate::fault::{PlacedValue, Value};
use crate::{BoundCommand, Command, LayerName, OpKind, RawBuffer};

/// Commands of a plan in a batch. A device may cache what it prepares for them under the two numbers.
#[derive(Clone)]
pub struct PlanPart {
    /// The number of the plan.
    pub plan: u64,
    /// Which part of the plan it is: a plan that is longer than a batch has several.
    pub part: u32,
    /// The range of the Commands in the batch.
    pub commands: std::ops::Range<usize>,
    pub(crate) facts: Arc<Facts>,
    /// What they were patched with last.
    pub(crate) bases: Bases,
}

/// Facts about the Commands of a part that are the same for every run.
#[derive(Default)]
pub(crate) struct Facts {
    pub kinds: Vec<OpKind>,
    /// The work of each; see [`Command::work`](crate::Command::work).
    pub work: Vec<u64>,
    /// In the order of Commands.
    patches: Vec<Patch>,
    pub arena: usize,
    /// For each operand of each Command, the number of the temporary value that it is, and its place in the arena.
    pub temporary: Vec<Vec<Option<(u32, usize)>>>,
}

/// The memory that a run has for an input, an output or its arena.
#[derive(Clone, Copy)]
pub(crate) struct Base {
    pub address: usize,
    pub value: Value,
}

/// The bases of a run: outputs, inputs, and the arena.
pub(crate) type Bases = SmallVec<[Base; 4]>;

/// An operand whose address differs from run to run.
struct Patch {
    command: u32,
    operand: u32,
    /// Its base, and its offset in bytes.
    base: usize,
    offset: usize,
}

/// Commands that go in one batch, with the addresses of weights only.
pub(crate) struct Part {
    plan: u64,
    part: u32,
    commands: Vec<BoundCommand>,
    layers: Vec<Option<LayerName>>,
    bytes: u64,
    facts: Arc<Facts>,
}

/// Where an operand of a plan lies.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Weights { address: usize },
    Base { base: usize, offset: usize, temporary: Option<u32> },
}

/// How many Commands a call usually records after a plan. Room for them is reserved.
const ROOM_BEHIND: usize = 2;

impl Part {
    pub(super) fn new(
        (plan, part): (u64, usize),
        commands: &[(Command<Slot>, Option<LayerName>)],
        arena: usize,
        place: impl Fn(Slot) -> Place,
    ) -> Self {
        let mut facts = Facts { arena, ..Facts::default() };
        let mut bound = Vec::with_capacity(commands.len());
        for (index, (command, _)) in commands.iter().enumerate() {
            facts.kinds.push(command.op().kind());
            facts.work.push(command.work());
            let places = command.accesses().map(|(_, operand)| place(operand.buffer));
            let places: SmallVec<[Place; 8]> = places.collect();
            let mut temporary = Vec::with_capacity(places.len());
            for (operand, place) in places.iter().enumerate() {
                temporary.push(match *place {
                    Place::Weights { .. } => None,
                    Place::Base { base, offset, temporary } => {
                        let (command, operand) = (index as u32, operand as u32);
                        facts.patches.push(Patch { command, operand, base, offset });
                        temporary.map(|value| (value, offset))
                    }
                });
            }
            facts.temporary.push(temporary);
            bound.push(command.clone().bind(|slot| RawBuffer {
                address: match place(*slot) {
                    Place::Weights { address } => address,
                    Place::Base { .. } => 0,
                },
                bytes: slot.bytes(),
            }));
        }
        Part {
            plan,
            part: part as u32,
            commands: bound,
            layers: commands.iter().map(|(_, layer)| *layer).collect(),
            bytes: commands.iter().map(|(command, _)| command.bytes() as u64).sum(),
            facts: Arc::new(facts),
        }
    }

    pub fn commands(&self) -> usize {
        self.commands.len()
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The plan's number, and that of the part.
    pub fn key(&self) -> (u64, u32) {
        (self.plan, self.part)
    }

    /// Adds the Commands to a batch, without the memory that [`PlanPart::patch`] gives them.
    pub fn append_to(&self, lists: &mut BatchLists) {
        let first = lists.len();
        if first == 0 {
            lists.commands.reserve_exact(self.commands.len() + ROOM_BEHIND);
        }
        for (command, layer) in self.commands.iter().zip(&self.layers) {
            lists.set_layer(*layer);
            lists.commands.push(command.clone());
        }
        lists.set_plan(PlanPart {
            plan: self.plan,
            part: self.part,
            commands: first..lists.len(),
            facts: Arc::clone(&self.facts),
            bases: Bases::new(),
        });
    }
}

impl PlanPart {
    /// The addresses of the run's outputs, inputs and arena. Together with the numbers they identify the Commands
    /// completely.
    pub fn addresses(&self) -> impl Iterator<Item = usize> {
        self.bases.iter().map(|base| base.address)
    }

    /// Writes the addresses of a run into the Commands, which begin the list. Usually they are those of the run before,
    /// and nothing is written.
    ///
    /// With `late`, the arena is not among the bases: [`bind`](Self::bind) gives it to the Commands before they run.
    pub(crate) fn patch(&mut self, commands: &mut [BoundCommand], mut bases: Bases, late: bool) {
        if late {
            let before = self.bases.get(bases.len()).map_or(0, |arena| arena.address);
            bases.push(Base { address: before, value: Value::GOOD });
        }
        let same = |(old, new): (&Base, &Base)| old.address == new.address;
        if self.bases.len() != bases.len() || !self.bases.iter().zip(&bases).all(same) {
            for patch in &self.facts.patches {
                let operand = commands[patch.command as usize].operand_mut(patch.operand as usize);
                operand.buffer.address = bases[patch.base].address + patch.offset;
            }
        }
        self.bases = bases;
    }

    /// Writes the address of an arena into the Commands. Usually it is that of the run before, and nothing is written.
    pub(crate) fn bind(&mut self, commands: &mut [BoundCommand], arena: Base) {
        let Some(index) = self.bases.len().checked_sub(1) else { return };
        let before = std::mem::replace(&mut self.bases[index], arena);
        if before.address != arena.address {
            for patch in self.facts.patches.iter().filter(|patch| patch.base == index) {
                let operand = commands[patch.command as usize].operand_mut(patch.operand as usize);
                operand.buffer.address = arena.address + patch.offset;
            }
        }
    }

    /// The operands of a Command as values. Only needed after a failure.
    pub(crate) fn values(&self, command: usize, operands: usize) -> PlacedValues {
        let mut values = PlacedValues::from_elem(Value::GOOD.into(), operands);
        let first = self.facts.patches.partition_point(|patch| (patch.command as usize) < command);
        let patches = self.facts.patches[first..].iter();
        for patch in patches.take_while(|patch| patch.command as usize == command) {
            let value = self.bases[patch.base].value;
            values[patch.operand as usize] = PlacedValue { value, offset: patch.offset };
        }
        values
    }

    /// No Commands, at the beginning of a batch.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn empty(plan: u64) -> Self {
        let (facts, bases) = (Arc::default(), Bases::new());
        Self { plan, part: 0, commands: 0..0, facts, bases }
    }
}

impl fmt::Debug for PlanPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlanPart({} of plan {}, {:?})", self.part, self.plan, self.commands)
    }
}
