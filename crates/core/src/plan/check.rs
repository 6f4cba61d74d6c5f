//! A second look at a plan that was laid out, which knows nothing of how that was done.

use crate::command::Access;
use crate::{Command, Error, LayerName, Result};

use super::{Slot, planner};

/// Whether every value lies inside the arena, nothing is read that was not written, and nothing overlaps that
/// lives at the same time.
pub(super) fn check(
    commands: &[(Command<Slot>, Option<LayerName>)],
    temporary: impl Fn(Slot) -> bool,
    offsets: &[usize],
    arena: usize,
) -> Result<()> {
    let mut written = vec![0usize; offsets.len()];
    // First and last Command that name a slot.
    let mut used: Vec<Option<(Slot, usize, usize)>> = vec![None; offsets.len()];
    for (index, (command, _)) in commands.iter().enumerate() {
        let fail = |reason: &str| defect(index, command.op().name(), reason);
        command.verify()?;
        // Reads first: what a Command makes is not there when it begins.
        let reads = command.accesses().filter(|(access, _)| *access == Access::Read);
        for (_, operand) in reads.filter(|(_, operand)| temporary(operand.buffer)) {
            if operand.layout.extent_bytes() > written[operand.buffer.index()] {
                return fail("reads what was not written");
            }
        }
        for (_, operand) in command.accesses().filter(|(_, operand)| temporary(operand.buffer)) {
            let slot = operand.buffer;
            let end = offsets[slot.index()].checked_add(slot.bytes);
            if end.is_none_or(|end| end > arena) {
                return fail("names memory outside the arena");
            }
            used[slot.index()].get_or_insert((slot, index, index)).2 = index;
        }
        for (_, operand) in command.accesses().filter(|(access, _)| *access == Access::Write) {
            let (layout, known) = (&operand.layout, &mut written[operand.buffer.index()]);
            if layout.extent_bytes() > *known {
                if layout.start_bytes() > *known || !layout.is_dense() {
                    return fail("leaves a gap that was not written");
                }
                *known = layout.extent_bytes();
            }
        }
    }
    let mut used: Vec<_> = used.into_iter().flatten().collect();
    used.sort_by_key(|&(_, first, _)| first);
    let mut living: Vec<(Slot, usize, usize)> = Vec::new();
    for new in used {
        let (slot, first, _) = new;
        living.retain(|&(_, _, last)| last >= first);
        for &(other, _, last) in &living {
            let [one, two] = [slot, other].map(|slot| (offsets[slot.index()], slot.bytes));
            let apart = one.0 + one.1 <= two.0 || two.0 + two.1 <= one.0;
            let (command, _) = &commands[first];
            // The one is made in the place of the other by the last Command that reads it.
            let taken_over =
                one == two && last == first && planner::overwritable(command, other, slot);
            if !apart && !taken_over {
                return defect(first, command.op().name(), "overlaps a value that is still used");
            }
        }
        living.push(new);
    }
    Ok(())
}

fn defect<T>(index: usize, op: &'static str, reason: &str) -> Result<T> {
    Err(Error::Invalid { op, reason: format!("Command {index} of the plan {reason}") })
}
