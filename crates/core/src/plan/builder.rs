//! Making plans.

use crate::command::Access;
use crate::device::DeviceInner;
use crate::{Buffer, Command, DType, Error, LayerName, Layout, Op, Operand, Result};

use super::part::{Part, Place};
use super::planner::{self, Life};
use super::{Inner, MAX_COMMANDS, MAX_ENDS, Plan, Slot, check};

/// Takes the Commands of a [`Plan`].
///
/// Commands are made with the usual constructors, from operands that name [`Slot`]s. As with buffers, a slot reads as
/// zeros until it is written.
pub struct PlanBuilder {
    number: u64,
    device: &'static DeviceInner,
    slots: Vec<SlotState>,
    commands: Vec<(Command<Slot>, Option<LayerName>)>,
    inputs: Vec<Layout>,
    outputs: Vec<Layout>,
    /// Which outputs are states.
    states: Vec<usize>,
}

impl std::fmt::Debug for PlanBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlanBuilder")
            .field("inputs", &self.inputs)
            .field("outputs", &self.outputs)
            .field("commands", &self.commands.len())
            .finish_non_exhaustive()
    }
}

struct SlotState {
    slot: Slot,
    kind: Kind,
    /// How many bytes, from the first on, the Commands so far have written.
    covered: usize,
}

/// What a slot will be in a run.
pub(super) enum Kind {
    Input(usize),
    Output(usize),
    Temporary,
    Weights(Buffer),
}

/// Temporary values begin at multiples of this, as blocks do, or of what the device asks for.
const SMALLEST_ALIGNMENT: usize = 64;

fn invalid<T>(reason: String) -> Result<T> {
    Err(Error::Invalid { op: "plan", reason })
}

/// Places for the temporary values with these lives, and the bytes of the arena.
pub(super) type Placed = fn(&[Life], usize) -> (Vec<usize>, usize);

impl PlanBuilder {
    pub(super) fn new(device: &'static DeviceInner) -> Self {
        static NUMBERS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        Self {
            number: NUMBERS.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            device,
            slots: Vec::new(),
            commands: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            states: Vec::new(),
        }
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn device(&self) -> &'static DeviceInner {
        self.device
    }

    fn add(&mut self, kind: Kind, bytes: usize, covered: usize) -> Slot {
        let slot = Slot { plan: self.number, index: self.slots.len() as u32, bytes };
        self.slots.push(SlotState { slot, kind, covered });
        slot
    }

    /// The next input. The buffer of a run has this layout.
    pub fn input(&mut self, layout: Layout) -> Slot {
        self.inputs.push(layout);
        let bytes = layout.extent_bytes();
        self.add(Kind::Input(self.inputs.len() - 1), bytes, bytes)
    }

    /// The next output. What no Command writes of it will be zero.
    pub fn output(&mut self, layout: Layout) -> Slot {
        self.outputs.push(layout);
        self.add(Kind::Output(self.outputs.len() - 1), layout.extent_bytes(), 0)
    }

    /// The next output, which Commands may also read as it was before the run: for example a cache that every run adds
    /// to. What was not written before the first run is zero.
    ///
    /// A Command that works in place changes only what it writes.
    pub fn state(&mut self, layout: Layout) -> Slot {
        let slot = self.output(layout);
        self.slots[slot.index()].covered = slot.bytes;
        self.states.push(self.outputs.len() - 1);
        slot
    }

    /// Memory for values between the Commands of one run.
    pub fn temporary(&mut self, bytes: usize) -> Slot {
        self.add(Kind::Temporary, bytes, 0)
    }

    /// Settled contents, which the plan keeps alive.
    ///
    /// # Errors
    ///
    /// A buffer of another device, or one that is not settled.
    pub fn weights(&mut self, buffer: &Buffer) -> Result<Slot> {
        if buffer.device() != crate::Device::from_inner(self.device) {
            return Err(Error::WrongDevice {
                what: "a buffer",
                found: buffer.device().label().to_owned(),
                expected: self.device.label().to_owned(),
            });
        }
        if !buffer.is_settled() {
            return invalid("weights must be settled: call Buffer::settle first".into());
        }
        Ok(self.add(Kind::Weights(buffer.clone()), buffer.bytes(), buffer.bytes()))
    }

    /// Adds a Command. It belongs to the layer that the calling thread is in.
    ///
    /// # Errors
    ///
    /// What [`Stream::record`](crate::Stream::record) refuses too; a slot of another plan; an input or weights
    /// as outputs; a download, whose bytes would be those of one run only.
    pub fn record(&mut self, command: Command<Slot>) -> Result<()> {
        self.record_for(command, LayerName::current())
    }

    pub(super) fn record_for(
        &mut self,
        command: Command<Slot>,
        layer: Option<LayerName>,
    ) -> Result<()> {
        command.verify()?;
        self.device.check_command(&command, command.bytes())?;
        let op = command.op().name();
        if let Op::Download { .. } = command.op() {
            let reason = "a plan has outputs in place of downloads: download them after the run";
            return Err(Error::Invalid { op, reason: reason.into() });
        }
        for (access, operand) in command.accesses() {
            let slot = operand.buffer;
            let Some(state) = self.slots.get(slot.index()).filter(|state| state.slot == slot)
            else {
                return invalid(format!("{op} names a slot of another plan"));
            };
            let fixed = matches!(state.kind, Kind::Input(_) | Kind::Weights(_));
            if fixed && access == Access::Write {
                return invalid(format!("{op} writes to an input or to weights of the plan"));
            }
        }
        command.claim_host()?;
        let operands: Vec<_> =
            command.accesses().map(|(access, operand)| (access, *operand)).collect();
        for (access, operand) in &operands {
            if !self.is_covered(*access, operand) {
                self.clear_rest(operand.buffer, layer)?;
            }
        }
        for (_, operand) in operands.iter().filter(|(access, _)| *access == Access::Write) {
            let state = &mut self.slots[operand.buffer.index()];
            state.covered = state.covered.max(operand.layout.extent_bytes());
        }
        self.push(command, layer)
    }

    fn push(&mut self, command: Command<Slot>, layer: Option<LayerName>) -> Result<()> {
        if self.commands.len() >= MAX_COMMANDS {
            return invalid(format!("more than {MAX_COMMANDS} Commands: make several plans"));
        }
        self.commands.push((command, layer));
        Ok(())
    }

    /// Whether all bytes that an access makes readable were written, as for buffers.
    fn is_covered(&self, access: Access, operand: &Operand<Slot>) -> bool {
        let (layout, state) = (&operand.layout, &self.slots[operand.buffer.index()]);
        access.is_covered(layout, state.covered, operand.buffer.bytes)
    }

    /// Clears the bytes of a slot that no Command has written: the memory of a run may hold another caller's data.
    fn clear_rest(&mut self, slot: Slot, layer: Option<LayerName>) -> Result<()> {
        let state = &mut self.slots[slot.index()];
        let covered = std::mem::replace(&mut state.covered, slot.bytes);
        let rest = Layout::contiguous(DType::U8, &[slot.bytes.saturating_sub(covered)])?;
        let fill = Command::fill(slot.operand(rest.shifted(covered)?), 0i32)?;
        self.push(fill, layer)
    }

    /// Lays the plan out.
    ///
    /// # Errors
    ///
    /// A plan without Commands, or more inputs and outputs than a run can have.
    pub fn finish(self) -> Result<Plan> {
        self.finish_placed(planner::place, true)
    }

    /// With offsets from the caller, so that tests can pass wrong ones.
    pub(super) fn finish_placed(mut self, placed: Placed, checked: bool) -> Result<Plan> {
        self.complete_outputs()?;
        if self.commands.is_empty() {
            return invalid("it has no Commands".into());
        }
        let (inputs, outputs) = (self.inputs.len(), self.outputs.len());
        if outputs > MAX_ENDS || inputs > MAX_ENDS {
            let reason = format!("{inputs} inputs and {outputs} outputs: at most {MAX_ENDS} each");
            return invalid(reason);
        }
        let (offsets, arena) = self.lay_out(placed);
        if checked {
            let temporary = |slot: Slot| matches!(self.slots[slot.index()].kind, Kind::Temporary);
            check::check(&self.commands, temporary, &offsets, arena)?;
        }
        let place = |slot: Slot| {
            let offset = offsets[slot.index()];
            match &self.slots[slot.index()].kind {
                Kind::Output(index) => Place::Base { base: *index, offset: 0, temporary: None },
                Kind::Input(index) => {
                    Place::Base { base: outputs + index, offset: 0, temporary: None }
                }
                Kind::Temporary => {
                    Place::Base { base: outputs + inputs, offset, temporary: Some(slot.index) }
                }
                Kind::Weights(buffer) => Place::Weights { address: buffer.raw().address },
            }
        };
        let most = self.device.max_plan_commands();
        let parts = self.commands.chunks(most).enumerate();
        let parts = parts.map(|(part, chunk)| Part::new((self.number, part), chunk, arena, place));
        let parts = parts.collect();
        let weights = self.slots.into_iter().filter_map(|state| match state.kind {
            Kind::Weights(buffer) => Some(buffer),
            Kind::Input(_) | Kind::Output(_) | Kind::Temporary => None,
        });
        Ok(Plan(std::sync::Arc::new(Inner {
            number: self.number,
            device: self.device,
            weights: weights.collect(),
            inputs: self.inputs,
            outputs: self.outputs,
            states: self.states,
            arena,
            parts,
        })))
    }

    /// Clears what no Command writes of the outputs, since a run counts them as written.
    fn complete_outputs(&mut self) -> Result<()> {
        let incomplete = self.slots.iter().filter(|state| {
            matches!(state.kind, Kind::Output(_)) && state.covered < state.slot.bytes
        });
        let incomplete: Vec<Slot> = incomplete.map(|state| state.slot).collect();
        incomplete.into_iter().try_for_each(|slot| self.clear_rest(slot, None))
    }

    /// The place of each slot that is temporary, and the bytes of the arena.
    fn lay_out(&self, placed: Placed) -> (Vec<usize>, usize) {
        let commands = || self.commands.iter().map(|(command, _)| command);
        let lives = planner::lives(self.slots.len(), commands());
        let temporary = |slot: Slot| matches!(self.slots[slot.index()].kind, Kind::Temporary);
        let taken = planner::takeovers(&lives, commands(), temporary);
        // A value that takes a place over lengthens the life of that place. It has a later Command, though not
        // always a later slot.
        let mut places: Vec<Option<Life>> = lives.clone();
        let root = |mut slot: usize| {
            while let Some(before) = taken[slot] {
                slot = before;
            }
            slot
        };
        for (slot, life) in lives.iter().enumerate() {
            let root = root(slot);
            if let (true, Some(life), Some(place)) = (root != slot, life, &mut places[root]) {
                place.last = place.last.max(life.last);
                places[slot] = None;
            }
        }
        let is_placed = |slot: &usize| places[*slot].is_some() && temporary(self.slots[*slot].slot);
        let roots: Vec<usize> = (0..places.len()).filter(is_placed).collect();
        let to_place: Vec<Life> = roots.iter().filter_map(|&slot| places[slot]).collect();
        let alignment = self.device.backend().info().alignment.max(SMALLEST_ALIGNMENT);
        let (found, arena) = placed(&to_place, alignment);
        let mut offsets = vec![0; places.len()];
        for (&slot, &offset) in roots.iter().zip(&found) {
            offsets[slot] = offset;
        }
        let offsets = (0..offsets.len()).map(|slot| offsets[root(slot)]).collect();
        // Values without bytes need a place too.
        (offsets, if to_place.is_empty() { 0 } else { arena.max(1) })
    }
}
