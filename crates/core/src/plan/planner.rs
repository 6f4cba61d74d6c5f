//! Where temporary values lie in the arena.
//!
//! Two values share memory if the one is dead before the other is made, or if a Command makes the one in the
//! place of the other, which it is the last to read.

use crate::Command;
use crate::command::Access;

use super::Slot;

/// From the first Command that uses a value to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Life {
    pub first: usize,
    pub last: usize,
    pub bytes: usize,
}

impl Life {
    pub fn meets(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// The lives of all slots that some Command uses.
pub(super) fn lives<'a>(
    slots: usize,
    commands: impl Iterator<Item = &'a Command<Slot>>,
) -> Vec<Option<Life>> {
    let mut lives = vec![None; slots];
    for (index, command) in commands.enumerate() {
        for (_, operand) in command.accesses() {
            let slot = operand.buffer;
            let new = Life { first: index, last: index, bytes: slot.bytes };
            lives[slot.index()].get_or_insert(new).last = index;
        }
    }
    lives
}

/// For each slot the one whose place it takes over, if there is one. `may_be` says which slots lie in the
/// arena.
pub(super) fn takeovers<'a>(
    lives: &[Option<Life>],
    commands: impl Iterator<Item = &'a Command<Slot>>,
    may_be: impl Fn(Slot) -> bool,
) -> Vec<Option<usize>> {
    let mut taken = vec![None; lives.len()];
    let mut gone = vec![false; lives.len()];
    for (index, command) in commands.enumerate() {
        for output in command.outputs() {
            let made_here = |life: &Life| life.first == index;
            let slot = output.buffer;
            if !may_be(slot) || !lives[slot.index()].as_ref().is_some_and(made_here) {
                continue;
            }
            let ends_here = |input: Slot| {
                may_be(input)
                    && input.bytes == slot.bytes
                    && !gone[input.index()]
                    && lives[input.index()].is_some_and(|life| life.last == index)
                    && overwritable(command, input, slot)
            };
            let place = command.inputs().iter().map(|input| input.buffer).find(|&i| ends_here(i));
            if let Some(place) = place {
                taken[slot.index()] = Some(place.index());
                gone[place.index()] = true;
            }
        }
    }
    taken
}

/// Whether a Command may make `output` where it reads `input`: in all places in which it names the two.
pub(super) fn overwritable(command: &Command<Slot>, input: Slot, output: Slot) -> bool {
    let Some(made) = command.outputs().iter().find(|operand| operand.buffer == output) else {
        return false;
    };
    command.accesses().all(|(access, operand)| access == Access::Read || operand.buffer != input)
        && command.inputs().iter().enumerate().all(|(index, operand)| {
            operand.buffer != input
                || (command.may_overwrite(index) && operand.layout == made.layout)
        })
}

/// Where values with these lives lie, and how many bytes that takes in all. The largest are placed first, each
/// at the lowest place that is free for as long as it lives.
pub(super) fn place(lives: &[Life], alignment: usize) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..lives.len()).collect();
    order.sort_by_key(|&index| (std::cmp::Reverse(lives[index].bytes), lives[index].first));
    let mut offsets = vec![0usize; lives.len()];
    // Those that are placed, by their place.
    let mut placed: Vec<usize> = Vec::with_capacity(lives.len());
    let mut total = 0usize;
    for index in order {
        let life = lives[index];
        let mut offset = 0usize;
        for &other in placed.iter().filter(|&&other| lives[other].meets(&life)) {
            if offset.saturating_add(life.bytes) <= offsets[other] {
                break;
            }
            let end = offsets[other].saturating_add(lives[other].bytes);
            offset = offset.max(end.checked_next_multiple_of(alignment).unwrap_or(usize::MAX));
        }
        offsets[index] = offset;
        total = total.max(offset.saturating_add(life.bytes));
        let at = placed.partition_point(|&other| offsets[other] <= offset);
        placed.insert(at, index);
    }
    (offsets, total)
}

#[cfg(test)]
mod tests;
