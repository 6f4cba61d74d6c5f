//! A lock-free stack on which any thread returns something to its owner.
//!
//! Returning is one compare-and-swap; the owner takes everything at once with one swap. Since nothing
//! is ever popped singly, the ABA problem does not arise.

use std::ptr::{self, NonNull};

use super::shim::{AtomicPtr, Ordering};

/// A value with room for the link of a [`ReturnStack`].
///
/// # Safety
///
/// `link` gives the same place on every call, and only the stack uses it while the value is on one.
pub unsafe trait Linked: Sized {
    /// The link.
    fn link(&self) -> &AtomicPtr<Self>;
}

/// A stack of returned values. The values are owned by the stack while they are on it.
#[derive(Debug)]
pub struct ReturnStack<T: Linked> {
    head: AtomicPtr<T>,
}

impl<T: Linked> Default for ReturnStack<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Linked> ReturnStack<T> {
    /// An empty stack.
    pub fn new() -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Returns a value.
    ///
    /// # Safety
    ///
    /// The caller hands over sole ownership of `*value`, which stays valid until it is taken.
    pub unsafe fn push(&self, value: NonNull<T>) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // SAFETY: the caller handed the value over, so it is valid and no one else has it.
            unsafe { value.as_ref() }.link().store(head, Ordering::Relaxed);
            // Pairs with `take_all`. Pushes of others keep the release sequence.
            match self.head.compare_exchange_weak(
                head,
                value.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(current) => head = current,
            }
        }
    }

    /// Takes everything that was returned, newest first.
    pub fn take_all(&self) -> TakeAll<T> {
        // A look before the swap: the owner asks often, and mostly there is nothing.
        if self.head.load(Ordering::Relaxed).is_null() {
            return TakeAll(None);
        }
        // Pairs with all pushes since the last swap; links are read after it.
        TakeAll(NonNull::new(self.head.swap(ptr::null_mut(), Ordering::Acquire)))
    }
}

/// The values taken from a [`ReturnStack`]; each is owned by the caller once it is yielded.
pub struct TakeAll<T: Linked>(Option<NonNull<T>>);

impl<T: Linked> std::fmt::Debug for TakeAll<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TakeAll").field(&self.0).finish()
    }
}

impl<T: Linked> Iterator for TakeAll<T> {
    type Item = NonNull<T>;

    fn next(&mut self) -> Option<NonNull<T>> {
        let value = self.0?;
        // SAFETY: the value came off the stack with the list, so this iterator owns it.
        self.0 = NonNull::new(unsafe { value.as_ref() }.link().load(Ordering::Relaxed));
        Some(value)
    }
}

#[cfg(test)]
mod tests;
