//! What a thread keeps from one Command to the next.
//!
//! A destructor of another variable of the thread may run a model when these variables are gone already. Then each use has
//! buffers of its own.

use std::cell::{Cell, RefCell};

use bytemuck::Pod;

use super::store::{Line, STORE, ScratchBuffer, Store};
use crate::kernels::shared::fault::Result;

thread_local! {
    pub(super) static SCRATCH: ThreadScratch = const { ThreadScratch::new(&STORE) };
}

/// The buffers of one thread. One that is in use is taken out, so that a nested use has its own.
pub(super) struct ThreadScratch {
    store: &'static Store,
    /// A buffer for each level of nested uses of [`with_scratch`].
    stack: RefCell<Vec<ScratchBuffer>>,
    slots: [(Cell<ScratchBuffer>, Cell<Option<Content>>); 3],
    /// Whether a buffer was allocated since the last [`trim`](Self::trim).
    has_new: Cell<bool>,
}

/// Buffers with a purpose. What was put there last may be used again.
#[derive(Clone, Copy)]
pub(crate) enum Slot {
    /// Packed rows of the lhs of a product.
    Lhs,
    /// Packed panels of the rhs of a product.
    Rhs,
    /// Sums that cannot be kept in the output.
    Sums,
}

/// What a slot holds: a number that is given once in the process, and two more of its giver.
pub(crate) type Content = (u64, usize, usize);

/// Calls `body` with slices of exactly so many numbers each, aligned to 64 bytes. Their content is
/// arbitrary. Sizes that do not fit a word are given as the largest one.
pub(crate) fn with_scratch<T: Pod, R, const N: usize>(
    sizes: [usize; N],
    body: impl FnOnce([&mut [T]; N]) -> R,
) -> Result<R> {
    let lines = sizes.map(lines_of::<T>);
    let total = lines.iter().fold(0, |sum: usize, &lines| sum.saturating_add(lines));
    let own = SCRATCH.try_with(|scratch| {
        let buffer = scratch.stack.borrow_mut().pop().unwrap_or_default();
        scratch.grown(buffer, total)
    });
    let mut buffer = own.unwrap_or_else(|_| STORE.allocate(total))?;
    let mut rest = &mut buffer.lines[..];
    let slices = std::array::from_fn(|index| {
        let (slice, after) = std::mem::take(&mut rest).split_at_mut(lines[index]);
        rest = after;
        // SAFETY: the lines have at least so many bytes, which are initialized and aligned, and any bits are a `Pod`.
        unsafe { std::slice::from_raw_parts_mut(slice.as_mut_ptr().cast(), sizes[index]) }
    });
    let result = body(slices);
    let _ = SCRATCH.try_with(|scratch| scratch.stack.borrow_mut().push(buffer));
    Ok(result)
}

/// Calls `body` with a slot of at least so many numbers and whether it holds `content` already.
/// If not, its content is arbitrary, and `body` must put `content` there.
pub(crate) fn with_slot<T: Copy, R>(
    slot: Slot,
    size: usize,
    content: Option<Content>,
    body: impl FnOnce(*mut T, bool) -> R,
) -> Result<R> {
    let lines = lines_of::<T>(size);
    let own = SCRATCH.try_with(|scratch| {
        let (buffer, known) = &scratch.slots[slot as usize];
        let (buffer, known) = (buffer.take(), known.take());
        let known = buffer.lines.len() >= lines && content.is_some() && known == content;
        scratch.grown(buffer, lines).map(|buffer| (buffer, known))
    });
    let (mut buffer, known) =
        own.unwrap_or_else(|_| STORE.allocate(lines).map(|buffer| (buffer, false)))?;
    let result = body(buffer.lines.as_mut_ptr().cast(), known);
    let _ = SCRATCH.try_with(|scratch| {
        let (old_buffer, old_content) = &scratch.slots[slot as usize];
        old_buffer.set(buffer);
        old_content.set(content);
    });
    Ok(result)
}

/// Gives back the calling thread's large buffers. To be called when it is done with a Command.
#[inline]
pub(crate) fn trim() {
    let _ = SCRATCH.try_with(ThreadScratch::trim);
}

fn lines_of<T>(size: usize) -> usize {
    size.saturating_mul(size_of::<T>()).div_ceil(size_of::<Line>())
}

impl ThreadScratch {
    pub const fn new(store: &'static Store) -> Self {
        ThreadScratch {
            store,
            stack: RefCell::new(Vec::new()),
            slots: [const { (Cell::new(ScratchBuffer::EMPTY), Cell::new(None)) }; 3],
            has_new: Cell::new(false),
        }
    }

    /// A buffer of at least so many lines: this one if it suffices, else another in its place.
    #[inline]
    pub fn grown(&self, buffer: ScratchBuffer, lines: usize) -> Result<ScratchBuffer> {
        if buffer.lines.len() >= lines {
            return Ok(buffer);
        }
        drop(buffer);
        self.has_new.set(true);
        self.store.allocate(lines)
    }

    /// Puts a buffer where the next use of [`with_scratch`] finds it.
    #[cfg(test)]
    pub fn put(&self, buffer: ScratchBuffer) {
        self.stack.borrow_mut().push(buffer);
    }

    /// Bytes of all buffers that are not in use.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        let of_slot = |(slot, _): &(Cell<ScratchBuffer>, _)| {
            let buffer = slot.take();
            let bytes = buffer.bytes();
            slot.set(buffer);
            bytes
        };
        let stack: usize = self.stack.borrow().iter().map(ScratchBuffer::bytes).sum();
        stack + self.slots.iter().map(of_slot).sum::<usize>()
    }

    /// Exchanges all buffers with another one's.
    pub fn swap(&self, other: &Self) {
        let Self { store: _, stack, slots, has_new } = self;
        stack.swap(&other.stack);
        for ((buffer, content), (other_buffer, other_content)) in slots.iter().zip(&other.slots) {
            buffer.swap(other_buffer);
            content.swap(other_content);
        }
        has_new.swap(&other.has_new);
    }

    /// Frees all buffers that are not in use.
    pub fn clear(&self) {
        self.swap(&Self::new(self.store));
    }

    #[inline]
    pub fn trim(&self) {
        if self.has_new.replace(false) {
            self.give_back();
        }
    }

    #[cold]
    fn give_back(&self) {
        let mut stack = self.stack.borrow_mut();
        for buffer in stack.iter_mut() {
            *buffer = self.store.trimmed(std::mem::take(buffer));
        }
        stack.retain(|buffer| !buffer.lines.is_empty());
        for (buffer, content) in &self.slots {
            let trimmed = self.store.trimmed(buffer.take());
            if trimmed.lines.is_empty() {
                content.set(None);
            }
            buffer.set(trimmed);
        }
    }
}

/// What the calling thread keeps.
#[cfg(test)]
pub(super) fn kept_by_this_thread() -> usize {
    SCRATCH.with(ThreadScratch::bytes)
}
