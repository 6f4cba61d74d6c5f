use std::sync::{Arc, Barrier};

use super::store::{KEPT_BYTES, LARGEST_SPARE, Line, MAX_SPARE, ScratchBuffer, Store};
use super::thread::{ThreadScratch, kept_by_this_thread};
use super::*;

#[test]
fn slices_are_aligned_and_apart_and_nested_uses_too() {
    with_scratch([3, 0, 40], |[a, b, c]: [&mut [f32]; 3]| {
        assert_eq!((a.len(), b.len(), c.len()), (3, 0, 40));
        assert_eq!(c.as_ptr() as usize % 64, 0);
        a.fill(1.0);
        c.fill(2.0);
        with_scratch([100, 100], |slices: [&mut [u8]; 2]| {
            slices.into_iter().for_each(|slice| slice.fill(7));
        })
        .unwrap();
        assert!(a.iter().all(|&x| x == 1.0) && c.iter().all(|&x| x == 2.0));
    })
    .unwrap();
}

#[test]
fn slots_are_aligned_and_a_nested_use_has_its_own() {
    with_slot::<f32, _>(Slot::Sums, 40, None, |outer, _| {
        assert_eq!(outer as usize % 64, 0);
        with_slot::<f64, _>(Slot::Sums, 40, None, |inner, _| {
            assert_ne!(inner.cast(), outer);
        })
        .unwrap();
    })
    .unwrap();
}

#[test]
fn a_slot_knows_its_content() {
    let [first, second] = [1, 2].map(|last| (u64::MAX, 0, last));
    let known =
        |content| with_slot::<f32, _>(Slot::Lhs, 100, Some(content), |_, known| known).unwrap();
    assert_eq!([first, first, second, first].map(known), [false, true, false, false]);
    with_slot::<f32, _>(Slot::Lhs, 1000, Some(first), |_, known| assert!(!known)).unwrap();
    with_slot::<f32, _>(Slot::Lhs, 10, None, |_, known| assert!(!known)).unwrap();
    assert!(!known(first));
}

#[test]
fn a_slot_that_is_given_back_forgets_its_content() {
    let size = KEPT_BYTES / size_of::<f32>() + 1;
    let content = Some((u64::MAX, 0, 3));
    let known = || with_slot::<f32, _>(Slot::Lhs, size, content, |_, known| known).unwrap();
    assert_eq!([known(), known()], [false, true]);
    trim();
    assert!(!known());
}

#[test]
fn large_buffers_are_given_back_when_a_command_is_done() {
    with_scratch([KEPT_BYTES], |_: [&mut [u8]; 1]| ()).unwrap();
    trim();
    assert_eq!(kept_by_this_thread(), KEPT_BYTES);
    with_scratch([KEPT_BYTES + 1], |_: [&mut [u8]; 1]| ()).unwrap();
    assert!(kept_by_this_thread() > KEPT_BYTES);
    trim();
    assert_eq!(kept_by_this_thread(), 0);
}

#[test]
fn memory_that_cannot_be_had_is_a_fault() {
    for size in [usize::MAX, 1 << 50] {
        let fault = with_scratch([1, size], |_: [&mut [f64]; 2]| ()).unwrap_err();
        assert!(fault.message().contains("scratch memory"), "{fault}");
        assert!(filled(size, 0u64).is_err());
    }
    // The thread goes on.
    assert_eq!(with_scratch([2], |[slice]: [&mut [i32]; 1]| slice.len()), Ok(2));
    let mut list = Vec::new();
    (0..100).for_each(|i| push(&mut list, i).unwrap());
    assert_eq!(list, collected(0..100).unwrap());
}

/// Uses a buffer of so many bytes in a Command.
fn run_command(scratch: &ThreadScratch, bytes: usize) {
    let buffer = scratch.grown(ScratchBuffer::EMPTY, bytes / size_of::<Line>()).unwrap();
    scratch.put(buffer);
    scratch.trim();
}

#[test]
fn what_all_threads_keep_is_bounded_and_counted() {
    const THREADS: usize = 12;
    let store = Store::with_bound(5 * KEPT_BYTES);
    let barrier = Arc::new(Barrier::new(THREADS + 1));
    let threads = [(); THREADS].map(|()| {
        let barrier = Arc::clone(&barrier);
        std::thread::spawn(move || {
            let scratch = ThreadScratch::new(store);
            (0..3).for_each(|_| run_command(&scratch, KEPT_BYTES));
            barrier.wait();
            barrier.wait();
        })
    });
    barrier.wait();
    let (kept, held) = (store.kept_bytes(), store.bytes());
    barrier.wait();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((kept, held), (5 * KEPT_BYTES, 5 * KEPT_BYTES));
    // Threads that have ended keep nothing.
    assert_eq!((store.kept_bytes(), store.bytes()), (0, 0));
}

#[test]
fn large_buffers_that_nobody_uses_are_bounded_in_number_and_size() {
    let store = Store::with_bound(usize::MAX);
    let large = 2 * KEPT_BYTES;
    let threads: Vec<_> = (0..MAX_SPARE + 3).map(|_| ThreadScratch::new(store)).collect();
    // All are in use at once, so none is used again.
    let lines = large / size_of::<Line>();
    let buffers: Vec<_> =
        threads.iter().map(|scratch| scratch.grown(ScratchBuffer::EMPTY, lines).unwrap()).collect();
    for (scratch, buffer) in threads.iter().zip(buffers) {
        scratch.put(buffer);
        scratch.trim();
    }
    assert_eq!(store.bytes(), MAX_SPARE * large);
    // A spare buffer is used again.
    run_command(&threads[0], large);
    assert_eq!(store.bytes(), MAX_SPARE * large);
    store.free_spare();
    assert_eq!((store.kept_bytes(), store.bytes()), (0, 0));
    run_command(&threads[0], LARGEST_SPARE + KEPT_BYTES);
    assert_eq!(store.bytes(), 0);
}
