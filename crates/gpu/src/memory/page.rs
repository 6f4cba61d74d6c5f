//! What a device reports to the host, in memory that both reach: how many batches have completed, and the faults of
//! their Commands.
//!
//! Batches use the slots for faults in turn, so each batch has its own slot as long as at most [`MAX_IN_FLIGHT`] are
//! in flight. A slot has the tick of the batch for which it was last written, two unused words, and a code per
//! Command.

use millstream_core::sync::schedule::{AtomicU32, AtomicU64, Ordering};
use millstream_kernels::FAULT_HEADER_WORDS;

use crate::platform::HostVisible;

/// The most batches of a queue that may be in flight at a time.
pub const MAX_IN_FLIGHT: usize = 16;

/// Bytes before the first slot; the first word counts batches.
const SLOTS_AT: usize = 64;

/// A queue's page.
pub struct Page<M> {
    memory: M,
    commands: usize,
}

impl<M: HostVisible> Page<M> {
    /// The size of a page for batches of at most `commands` Commands, which is an even number.
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

    /// The most Commands of a batch.
    pub fn commands(&self) -> usize {
        self.commands
    }

    fn word(&self, byte: usize) -> &AtomicU64 {
        // SAFETY: callers pass offsets inside of the page that are multiples of 8. The page is aligned and
        // initialized, and lives as long as `self`. The device writes whole words.
        unsafe { &*self.memory.host().as_ptr().add(byte).cast::<AtomicU64>() }
    }

    fn codes(&self, slot: usize) -> &[AtomicU32] {
        // SAFETY: the slot lies in the page, which lives as long as `self`. The device writes whole words. It writes
        // a slot again only when the slot's last batch is no longer in flight.
        unsafe {
            let host = self.memory.host().as_ptr();
            let codes = host.add(slot).cast::<AtomicU32>().add(FAULT_HEADER_WORDS);
            std::slice::from_raw_parts(codes, self.commands)
        }
    }

    /// How many batches have completed. What they wrote for the host is visible.
    #[inline]
    pub fn completed(&self) -> u64 {
        // Pairs with the device's fences, or with `complete`.
        self.word(0).load(Ordering::Acquire)
    }

    /// The codes of the batch with this tick, one per Command, if it had a fault. The batch has completed, and is in
    /// flight until the codes are read.
    pub fn faults(&self, tick: u64) -> Option<&[AtomicU32]> {
        let slot = slot_at(tick, self.commands);
        // Pairs with the device's fences, or with `complete`.
        let written = self.word(slot).load(Ordering::Acquire) == tick;
        written.then(|| self.codes(slot))
    }

    /// Completes the batch with number `tick`, as the device does, for platforms that do it on the host.
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
mod tests;
