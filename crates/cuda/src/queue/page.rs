//! What the device tells the host, in host memory: how many batches are through, and the first fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::driver::{Context, Failure, Pinned};

/// Words of the page, as in `struct Page` of `builtin.cu`.
const TICK: usize = 0;
const FAULTED: usize = 8;
const FAULT: usize = 9;

/// A queue's page.
pub(crate) struct Page(Pinned);

/// A fault as the device wrote it down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FaultNote {
    /// What went wrong; see `millstream_kernels::fault_message`.
    pub code: u32,
    /// The Command's place in its batch.
    pub index: usize,
}

impl Page {
    /// # Errors
    ///
    /// What the driver said.
    pub fn new(context: &Arc<Context>) -> Result<Self, Failure> {
        Pinned::new(context, 128).map(Self)
    }

    /// The address as the device sees it.
    pub fn address(&self) -> usize {
        self.0.address()
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: the page is larger than all words, aligned, zeroed, and lives as long as `self`. The
        // device writes whole words.
        unsafe { &*self.0.host().cast::<AtomicU64>().add(index) }
    }

    /// How many batches are through. What they wrote for the host is visible.
    pub fn tick(&self) -> u64 {
        self.word(TICK).load(Ordering::Acquire)
    }

    /// The fault of the batch with that tick, if it is the first that had one.
    pub fn fault(&self, tick: u64) -> Option<FaultNote> {
        (self.word(FAULTED).load(Ordering::Acquire) == tick)
            .then(|| FaultNote::from_word(self.word(FAULT).load(Ordering::Acquire)))
    }

    /// Makes room for the next fault. Only when nothing is in flight.
    pub fn clear_fault(&self) {
        self.word(FAULTED).store(0, Ordering::Release);
    }
}

impl FaultNote {
    fn from_word(word: u64) -> Self {
        let word = word as u32;
        Self { code: word >> 16, index: (word & 0xffff).saturating_sub(1) as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_word_names_code_and_command() {
        assert_eq!(FaultNote::from_word(1 << 16 | 5), FaultNote { code: 1, index: 4 });
    }
}
