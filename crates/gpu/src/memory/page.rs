//! What a device tells the host, in memory that both reach: how many batches are through, and which of their
//! Commands met impossible data.
//!
//! Batches use the slots for faults in turn, so that each has one of its own as long as no more than
//! [`MAX_IN_FLIGHT`] are in flight. A slot has the tick of the batch that it was last written for, two unused words,
//! and a code per Command.

use millstream_core::sync::schedule::{AtomicU32, AtomicU64, Ordering};
use millstream_kernels::FAULT_HEADER_WORDS;

use crate::platform::HostVisible;

/// Batches of a queue that may be in flight at a time.
pub const MAX_IN_FLIGHT: usize = 16;

/// Bytes before the first slot; the first word counts batches.
const SLOTS_AT: usize = 64;

/// A queue's page.
pub struct Page<M> {
    memory: M,
    commands: usize,
}

impl<M: HostVisible> Page<M> {
    /// The size of a page for batches of at most so many Commands, which is an even number.
    pub fn bytes(commands: usize) -> usize {
        slot_at(MAX_IN_FLIGHT as u64 - 1, commands) + slot_bytes(commands)
    }

    /// A page in zeroed memory of that size.
    pub fn new(memory: M, commands: usize) -> Self {
        assert!(memory.bytes() >= Self::bytes(commands) && commands.is_multiple_of(2));
        Self { memory, commands }
    }

    /// The memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Commands that a batch has at most.
    pub fn commands(&self) -> usize {
        self.commands
    }

    fn word(&self, byte: usize) -> &AtomicU64 {
        // SAFETY: the callers' places lie in the page and are multiples of 8; it is aligned, initialized, and
        // lives as long as `self`. The device writes whole words.
        unsafe { &*self.memory.host().as_ptr().add(byte).cast::<AtomicU64>() }
    }

    fn codes(&self, slot: usize) -> &[AtomicU32] {
        // SAFETY: the slot lies in the page, which lives as long as `self`. The device writes whole words,
        // and writes a slot again only for a batch that comes when its last one is not in flight any more.
        unsafe {
            let host = self.memory.host().as_ptr();
            let codes = host.add(slot).cast::<AtomicU32>().add(FAULT_HEADER_WORDS);
            std::slice::from_raw_parts(codes, self.commands)
        }
    }

    /// How many batches are through. What they wrote for the host is visible.
    #[inline]
    pub fn completed(&self) -> u64 {
        // Pairs with the device's fences, or with `complete`.
        self.word(0).load(Ordering::Acquire)
    }

    /// The codes of the batch with that tick, one per Command, if it had a fault. It is through, and in
    /// flight until the codes are read.
    pub fn faults(&self, tick: u64) -> Option<&[AtomicU32]> {
        let slot = slot_at(tick, self.commands);
        // Pairs with the device's fences, or with `complete`.
        let written = self.word(slot).load(Ordering::Acquire) == tick;
        written.then(|| self.codes(slot))
    }

    /// What a device does at the end of a batch that has number `tick`, for platforms that do it on the host.
    pub fn complete(&self, tick: u64, faults: Option<&[u32]>) {
        if let Some(faults) = faults {
            let slot = slot_at(tick, self.commands);
            for (code, fault) in self.codes(slot).iter().zip(faults) {
                code.store(*fault, Ordering::Relaxed);
            }
            self.word(slot).store(tick, Ordering::Release);
        }
        self.word(0).store(tick, Ordering::Release);
    }
}

fn slot_bytes(commands: usize) -> usize {
    millstream_kernels::fault_record_bytes(commands)
}

fn slot_at(tick: u64, commands: usize) -> usize {
    SLOTS_AT + (tick % MAX_IN_FLIGHT as u64) as usize * slot_bytes(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_in_flight_have_slots_of_their_own_and_slots_are_aligned() {
        let ticks = 100..100 + MAX_IN_FLIGHT as u64;
        let mut slots: Vec<_> = ticks.map(|tick| slot_at(tick, 6)).collect();
        slots.sort_unstable();
        assert!(slots.windows(2).all(|pair| pair[1] - pair[0] == slot_bytes(6)));
        assert!(slots[0] == SLOTS_AT && slots.iter().all(|slot| slot % 8 == 0));
        assert_eq!(slot_at(3, 6), slot_at(3 + MAX_IN_FLIGHT as u64, 6));
    }
}
