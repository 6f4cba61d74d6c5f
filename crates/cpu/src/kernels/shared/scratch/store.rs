//! The store: it allocates buffers, counts them, and keeps large ones that nobody uses.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::lists::reserve;
use crate::kernels::shared::fault::Result;
use crate::memory::{self, prefer_huge_pages};

/// The store of the process. Threads are not tied to one device, so neither is their scratch memory.
pub(crate) static STORE: Store = Store::new();

/// Bytes of the largest buffer that a thread keeps when a Command is done.
pub(super) const KEPT_BYTES: usize = 1 << 20;

/// How many large buffers that nobody uses are kept, and the largest: enough for a few threads that compute.
pub(super) const MAX_SPARE: usize = 8;
pub(super) const LARGEST_SPARE: usize = 32 << 20;

/// Allocates and counts scratch buffers. The counts are exact, and order nothing.
pub(crate) struct Store {
    /// Bytes of all buffers, in use or kept.
    held: AtomicUsize,
    /// Bytes of the buffers that threads and the store keep for later.
    kept: AtomicUsize,
    /// The bound of `kept`.
    max_kept: OnceLock<usize>,
    /// Large buffers that nobody uses. Whoever finds the lock taken does without, so that nobody waits here.
    spare: Mutex<Vec<ScratchBuffer>>,
}

impl Store {
    pub(super) const fn new() -> Self {
        Store {
            held: AtomicUsize::new(0),
            kept: AtomicUsize::new(0),
            max_kept: OnceLock::new(),
            spare: Mutex::new(Vec::new()),
        }
    }

    /// A store with a bound of its own.
    #[cfg(test)]
    pub(super) fn with_bound(bytes: usize) -> &'static Self {
        let store: &'static Self = Box::leak(Box::new(Self::new()));
        store.max_kept.set(bytes).expect("set once");
        store
    }

    /// Bytes of all buffers, in use or kept for later.
    pub fn bytes(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Bytes of the buffers that are kept for later.
    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    /// What threads and the store keep at most, all together: an eighth of the memory of the machine.
    fn max_kept(&self) -> usize {
        *self.max_kept.get_or_init(|| memory::total() / 8)
    }

    /// A buffer of at least so many lines, with any content.
    #[cold]
    pub(super) fn allocate(&'static self, lines: usize) -> Result<ScratchBuffer> {
        let bytes = lines.saturating_mul(size_of::<Line>());
        if bytes > KEPT_BYTES
            && let Some(spare) = self.take_spare(lines)
        {
            return Ok(spare);
        }
        let mut list: Vec<Line> = Vec::new();
        reserve(&mut list, lines)?;
        prefer_huge_pages(list.as_mut_ptr().cast(), bytes);
        list.resize(lines, Line([0; 64]));
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Ok(ScratchBuffer { lines: list, store: Some(self), is_kept: false })
    }

    /// The smallest spare buffer that suffices.
    fn take_spare(&self, lines: usize) -> Option<ScratchBuffer> {
        let mut spare = self.spare.try_lock().ok()?;
        let enough = spare.iter().enumerate().filter(|(_, buffer)| buffer.lines.len() >= lines);
        let (index, _) = enough.min_by_key(|(_, buffer)| buffer.lines.len())?;
        let mut buffer = spare.swap_remove(index);
        buffer.set_kept(false);
        Some(buffer)
    }

    /// Takes a buffer of a thread that is done with a Command, if it is large or too much is kept already. Gives
    /// back what the thread keeps.
    pub(super) fn trimmed(&self, mut buffer: ScratchBuffer) -> ScratchBuffer {
        let bytes = buffer.bytes();
        if bytes > LARGEST_SPARE || !buffer.set_kept(true) {
            return ScratchBuffer::EMPTY;
        }
        if bytes <= KEPT_BYTES {
            return buffer;
        }
        if let Ok(mut spare) = self.spare.try_lock()
            && spare.len() < MAX_SPARE
        {
            spare.push(buffer);
        }
        ScratchBuffer::EMPTY
    }

    /// Frees the large buffers that nobody uses.
    pub fn free_spare(&self) {
        let spare = std::mem::take(&mut *self.spare.lock().unwrap_or_else(PoisonError::into_inner));
        drop(spare);
    }

    /// Counts bytes as kept, unless the bound is reached.
    fn keep(&self, bytes: usize) -> bool {
        let most = self.max_kept();
        let add = |kept: usize| kept.checked_add(bytes).filter(|&kept| kept <= most);
        self.kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }
}

/// One line of the cache, so that every buffer begins on one.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Line(#[allow(dead_code, reason = "read as numbers")] [u8; 64]);

/// Memory for numbers, counted by its store for as long as it lives.
pub(super) struct ScratchBuffer {
    pub lines: Vec<Line>,
    /// None for a buffer without memory.
    store: Option<&'static Store>,
    /// Whether it counts as kept for later. A thread that uses such a buffer again lets it count on.
    is_kept: bool,
}

impl ScratchBuffer {
    pub const EMPTY: Self = ScratchBuffer { lines: Vec::new(), store: None, is_kept: false };

    pub fn bytes(&self) -> usize {
        size_of_val(&self.lines[..])
    }

    /// Says whether the buffer is now as asked for: the bound may forbid to keep it.
    fn set_kept(&mut self, kept: bool) -> bool {
        let (Some(store), true) = (self.store, self.is_kept != kept) else { return true };
        if kept {
            self.is_kept = store.keep(self.bytes());
        } else {
            store.kept.fetch_sub(self.bytes(), Ordering::Relaxed);
            self.is_kept = false;
        }
        self.is_kept == kept
    }
}

impl Default for ScratchBuffer {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Drop for ScratchBuffer {
    fn drop(&mut self) {
        self.set_kept(false);
        if let Some(store) = self.store {
            store.held.fetch_sub(self.bytes(), Ordering::Relaxed);
        }
    }
}
