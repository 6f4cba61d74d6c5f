//! What the device tells the host, in host memory: how many batches are through, and which of their
//! Commands met impossible data.
//!
//! Batches use the slots for faults in turn, so that each has one of its own as long as no more than
//! [`SLOTS`] are in flight; see [`Flight::has_room`](super::flight::Flight::has_room).

use std::sync::Arc;

use millstream_core::sync::schedule::{AtomicU32, AtomicU64, Ordering};
use millstream_kernels::FAULT_HEADER_WORDS;

use crate::driver::{Context, Failure, Pinned};

/// Batches that may be in flight at a time, as in `builtin.cu`.
pub(crate) const SLOTS: usize = 16;

/// Bytes before the first slot: `struct Page` of `builtin.cu`.
const SLOTS_AT: usize = 64;

/// A queue's page.
pub(crate) struct Page {
    memory: Pinned,
    commands: usize,
}

impl Page {
    /// A page for batches of at most so many Commands, which is an even number.
    ///
    /// # Errors
    ///
    /// What the driver said.
    pub fn new(context: &Arc<Context>, commands: usize) -> Result<Self, Failure> {
        let memory =
            Pinned::new(context, slot_at(SLOTS as u64 - 1, commands) + slot_bytes(commands))?;
        Ok(Self { memory, commands })
    }

    /// The address as the device sees it.
    pub fn address(&self) -> usize {
        self.memory.address()
    }

    fn word(&self, byte: usize) -> &AtomicU64 {
        // SAFETY: the callers' places lie in the page and are multiples of 8; it is aligned, zeroed, and
        // lives as long as `self`. The device writes whole words.
        unsafe { &*self.memory.host().add(byte).cast::<AtomicU64>() }
    }

    /// How many batches are through. What they wrote for the host is visible.
    pub fn tick(&self) -> u64 {
        // Pairs with the system-wide fences of `finish` in `builtin.cu`.
        self.word(0).load(Ordering::Acquire)
    }

    /// The codes of the batch with that tick, one per Command, if it had a fault. It is through, and in
    /// flight until the codes are read.
    pub fn faults(&self, tick: u64) -> Option<&[AtomicU32]> {
        let slot = slot_at(tick, self.commands);
        if self.word(slot).load(Ordering::Acquire) != tick {
            return None;
        }
        // SAFETY: the slot lies in the page, which lives as long as `self`. The device writes whole words,
        // and writes this slot again only for a batch that comes when this one is not in flight any more.
        Some(unsafe {
            let codes = self.memory.host().add(slot).cast::<AtomicU32>().add(FAULT_HEADER_WORDS);
            std::slice::from_raw_parts(codes, self.commands)
        })
    }
}

fn slot_bytes(commands: usize) -> usize {
    millstream_kernels::fault_record_bytes(commands)
}

fn slot_at(tick: u64, commands: usize) -> usize {
    SLOTS_AT + (tick % SLOTS as u64) as usize * slot_bytes(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_and_host_agree_about_the_slots() {
        let text = format!("enum {{ SLOTS = {SLOTS}, HEADER_WORDS = {FAULT_HEADER_WORDS} }};");
        assert!(crate::builtin::SOURCE.contains(&text));
    }

    #[test]
    fn batches_in_flight_have_slots_of_their_own_and_slots_are_aligned() {
        let mut slots: Vec<_> = (100..100 + SLOTS as u64).map(|tick| slot_at(tick, 6)).collect();
        slots.sort_unstable();
        assert!(slots.windows(2).all(|pair| pair[1] - pair[0] == slot_bytes(6)));
        assert!(slots[0] == SLOTS_AT && slots.iter().all(|slot| slot % 8 == 0));
        assert_eq!(slot_at(3, 6), slot_at(3 + SLOTS as u64, 6));
    }
}
