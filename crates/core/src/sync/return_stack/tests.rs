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
