//! Commands of a plan that go in one batch, and how a run gets them.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::backend::BatchLists;
use crate::command::BufferLike;
use crate::fault::Value;
use crate::{BoundCommand, LayerName};

/// Commands of a plan in a batch. A device may keep what it makes of them under the two numbers.
#[derive(Clone, Debug)]
pub struct PlanPart {
    /// The number of the plan.
    pub plan: u64,
    /// Which part of the plan it is: a plan that is longer than a batch has several.
    pub part: u32,
    /// Where the Commands lie in the batch. Those before and after them are of others.
    pub commands: std::ops::Range<usize>,
    /// What lies in the arena, for the fake device.
    pub(crate) arena: Arc<ArenaMap>,
}

impl PlanPart {
    /// No Commands, at the beginning of a batch.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn empty(plan: u64) -> Self {
        Self { plan, part: 0, commands: 0..0, arena: Arc::default() }
    }
}

/// The temporary values that the operands of a part name.
#[derive(Debug, Default)]
pub(crate) struct ArenaMap {
    pub bytes: usize,
    /// For each operand of each Command, the number of the value and its place in the arena.
    pub operands: Vec<Vec<Option<(u32, usize)>>>,
}

/// The memory that a run has for an input, an output or its arena.
#[derive(Clone, Copy)]
pub(crate) struct Base {
    pub address: usize,
    pub value: Value,
}

/// An operand that lies elsewhere in every run.
struct Patch {
    command: u32,
    operand: u32,
    /// Its index among the operands of all Commands.
    value: u32,
    /// Which base it lies in, and how many bytes behind its beginning.
    base: u32,
    offset: usize,
}

/// Commands that go in one batch, with the addresses of weights, and of nothing else.
pub(crate) struct Part {
    plan: u64,
    part: u32,
    commands: Vec<BoundCommand>,
    layers: Vec<Option<LayerName>>,
    patches: Vec<Patch>,
    values: usize,
    bytes: u64,
    arena: Arc<ArenaMap>,
}

/// Where an operand of a plan lies.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Weights { address: usize },
    Base { base: usize, offset: usize, temporary: Option<u32> },
}

/// Commands that a call mostly adds behind a plan: their room need not be made anew.
const ROOM_BEHIND: usize = 2;

impl Part {
    pub(super) fn new(
        (plan, part): (u64, usize),
        commands: &[(crate::Command<super::Slot>, Option<LayerName>)],
        arena: usize,
        place: impl Fn(super::Slot) -> Place,
    ) -> Self {
        let mut result = Part {
            plan,
            part: part as u32,
            commands: Vec::with_capacity(commands.len()),
            layers: commands.iter().map(|(_, layer)| *layer).collect(),
            patches: Vec::new(),
            values: 0,
            bytes: commands.iter().map(|(command, _)| command.bytes() as u64).sum(),
            arena: Arc::default(),
        };
        let mut map = ArenaMap { bytes: arena, operands: Vec::with_capacity(commands.len()) };
        for (index, (command, _)) in commands.iter().enumerate() {
            let mut in_arena = Vec::new();
            for (operand, slot) in command.accesses().map(|(_, operand)| operand.buffer).enumerate()
            {
                let mut temporary = None;
                if let Place::Base { base, offset, temporary: value } = place(slot) {
                    temporary = value.map(|value| (value, offset));
                    result.patches.push(Patch {
                        command: index as u32,
                        operand: operand as u32,
                        value: result.values as u32,
                        base: base as u32,
                        offset,
                    });
                }
                result.values += 1;
                in_arena.push(temporary);
            }
            map.operands.push(in_arena);
            let bound = command.clone().bind(|slot| crate::RawBuffer {
                address: match place(*slot) {
                    Place::Weights { address } => address,
                    Place::Base { .. } => 0,
                },
                bytes: slot.bytes(),
            });
            result.commands.push(bound);
        }
        result.arena = Arc::new(map);
        result
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

    /// Adds the Commands to a batch, with everything but what [`patch`](Self::patch) writes.
    pub fn append_to(&self, lists: &mut BatchLists) {
        let first = lists.len();
        if first == 0 {
            lists.commands.reserve_exact(self.commands.len() + ROOM_BEHIND);
        }
        for (command, layer) in self.commands.iter().zip(&self.layers) {
            lists.set_layer(*layer);
            lists.commands.push(command.clone());
        }
        let first_value = lists.values.len();
        lists.values.resize(first_value + self.values, Value::GOOD);
        lists.set_plan(
            PlanPart {
                plan: self.plan,
                part: self.part,
                commands: first..lists.len(),
                arena: Arc::clone(&self.arena),
            },
            first_value,
        );
    }

    /// Gives the Commands of this part, which lie in the lists, their memory.
    pub fn patch(&self, lists: &mut BatchLists, bases: &[Base]) {
        let (first, first_value) = lists.plan_at();
        let commands = &mut lists.commands[first..];
        let values = &mut lists.values[first_value..];
        for patch in &self.patches {
            let base = &bases[patch.base as usize];
            let operand = commands[patch.command as usize].operand_mut(patch.operand as usize);
            operand.buffer.address = base.address + patch.offset;
            values[patch.value as usize] = Value { offset: patch.offset, ..base.value };
        }
    }
}

/// The bases of a run: outputs, inputs, and the arena.
pub(crate) type Bases = SmallVec<[Base; 8]>;
