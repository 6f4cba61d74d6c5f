//! Checks of how plans use their arenas, byte by byte.

use std::collections::BTreeMap;

use crate::command::Access;
use crate::{Batch, PlanPart};

/// By stream and address of an arena: the value that each byte belongs to.
#[derive(Default)]
pub(super) struct Arenas(BTreeMap<(u32, usize), Vec<Option<u32>>>);

impl Arenas {
    /// Checks that a batch stays inside its arena, and reads only bytes that its own run has written for the same
    /// value. Returns what is wrong.
    pub fn check(&mut self, stream: u32, batch: &Batch) -> Vec<String> {
        let mut wrong = Vec::new();
        let Some(part) = batch.plan() else { return wrong };
        if part.part == 0 {
            self.begin(stream, batch, part);
        }
        for (index, values) in part.facts.temporary.iter().enumerate() {
            let Some(command) = batch.commands.get(part.commands.start + index) else {
                wrong.push(format!("plan {} has more Commands than its batch", part.plan));
                break;
            };
            let operands = || {
                let accesses = command.accesses().zip(values);
                accesses.filter_map(|(access, value)| Some((access, (*value)?)))
            };
            // Reads come first: an output in the place of an input is written after the input was read.
            let reads = operands().filter(|((access, _), _)| *access == Access::Read);
            let writes = operands().filter(|((access, _), _)| *access == Access::Write);
            for ((access, operand), (value, offset)) in reads.chain(writes) {
                let mut fail = |what: &str| {
                    let (plan, name) = (part.plan, command.op().name());
                    wrong.push(format!("plan {plan}: Command {index}, {name}, {what}"));
                };
                let bytes = operand.layout.start_bytes()..operand.layout.extent_bytes();
                if bytes.is_empty() {
                    continue;
                }
                let bytes = offset + bytes.start..offset + bytes.end;
                let base = operand.buffer.address.wrapping_sub(offset);
                let arena = self.of(stream, base, part);
                let Some(owners) = arena.get_mut(bytes) else {
                    fail("reaches beyond the arena");
                    continue;
                };
                match access {
                    Access::Read if owners.iter().any(|owner| *owner != Some(value)) => {
                        fail("reads what is not there, or is another value by now");
                    }
                    Access::Read => {}
                    Access::Write if operand.layout.is_dense() => owners.fill(Some(value)),
                    // The bytes between its elements must belong to the same value.
                    Access::Write if owners.iter().any(|owner| *owner != Some(value)) => {
                        fail("leaves bytes between its elements that nobody has written");
                    }
                    Access::Write => {}
                }
            }
        }
        wrong
    }

    /// Begins a run: nothing was written yet to the arena of its Commands.
    fn begin(&mut self, stream: u32, batch: &Batch, part: &PlanPart) {
        let commands = batch.commands[part.commands.clone()].iter().zip(&part.facts.temporary);
        for (command, values) in commands {
            for ((_, operand), value) in command.accesses().zip(values) {
                if let Some((_, offset)) = value {
                    self.0.remove(&(stream, operand.buffer.address.wrapping_sub(*offset)));
                    return;
                }
            }
        }
    }

    fn of(&mut self, stream: u32, base: usize, part: &PlanPart) -> &mut Vec<Option<u32>> {
        let arena = self.0.entry((stream, base)).or_default();
        arena.resize(part.facts.arena, None);
        arena
    }
}
