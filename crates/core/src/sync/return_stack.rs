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
mod tests {
    use super::*;
    use crate::sync::shim::{Arc, AtomicUsize};

    struct Node {
        next: AtomicPtr<Node>,
        value: usize,
        used: AtomicUsize,
    }

    // SAFETY: `next` is a field that nothing else touches.
    unsafe impl Linked for Node {
        fn link(&self) -> &AtomicPtr<Node> {
            &self.next
        }
    }

    fn node(value: usize) -> NonNull<Node> {
        let next = AtomicPtr::new(ptr::null_mut());
        NonNull::from(Box::leak(Box::new(Node { next, value, used: AtomicUsize::new(0) })))
    }

    fn take(stack: &ReturnStack<Node>) -> Vec<usize> {
        stack
            .take_all()
            .map(|node| {
                // SAFETY: yielded values are owned, and all came from `Box::leak`.
                let node = unsafe { Box::from_raw(node.as_ptr()) };
                // What the returning thread did to the block is visible.
                assert_eq!(node.used.load(Ordering::Relaxed), 1);
                node.value
            })
            .collect()
    }

    fn give(stack: &ReturnStack<Node>, value: usize) {
        let node = node(value);
        // SAFETY: just made, owned here.
        unsafe { node.as_ref() }.used.store(1, Ordering::Relaxed);
        // SAFETY: ownership is handed over.
        unsafe { stack.push(node) };
    }

    #[cfg(not(loom))]
    #[test]
    fn everything_returned_is_taken_once() {
        let stack = Arc::new(ReturnStack::new());
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let stack = Arc::clone(&stack);
                std::thread::spawn(move || {
                    for index in 0..1000 {
                        give(&stack, thread * 1000 + index);
                    }
                })
            })
            .collect();
        let mut values = Vec::new();
        while values.len() < 4000 {
            values.extend(take(&stack));
        }
        for thread in threads {
            thread.join().unwrap();
        }
        values.extend(take(&stack));
        values.sort_unstable();
        assert_eq!(values, (0..4000).collect::<Vec<_>>());
    }

    #[cfg(loom)]
    #[test]
    fn loom_returns_are_neither_lost_nor_doubled() {
        loom::model(|| {
            let stack = Arc::new(ReturnStack::new());
            let threads: Vec<_> = (0..2)
                .map(|value| {
                    let stack = Arc::clone(&stack);
                    loom::thread::spawn(move || give(&stack, value))
                })
                .collect();
            let mut values = take(&stack);
            for thread in threads {
                thread.join().unwrap();
            }
            values.extend(take(&stack));
            values.sort_unstable();
            assert_eq!(values, [0, 1]);
        });
    }

    /// The same with the owner in a thread of its own, so that loom has it come after the returns too.
    #[cfg(loom)]
    #[test]
    fn loom_a_value_is_taken_as_it_was_returned() {
        loom::model(|| {
            let stack = Arc::new(ReturnStack::new());
            let other = {
                let stack = Arc::clone(&stack);
                loom::thread::spawn(move || give(&stack, 1))
            };
            let owner = {
                let stack = Arc::clone(&stack);
                loom::thread::spawn(move || take(&stack))
            };
            give(&stack, 0);
            other.join().unwrap();
            let mut values = owner.join().unwrap();
            values.extend(take(&stack));
            values.sort_unstable();
            assert_eq!(values, [0, 1]);
        });
    }
}
