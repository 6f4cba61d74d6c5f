//! How the chunks of one Command are shared between threads.

use std::ops::Range;

/// Shares the chunks of one Command between threads.
pub trait Parallel {
    /// Calls `body(i)` once for each `i` in `0..chunks`, in any order, perhaps at once on several
    /// threads, and returns when all are done.
    fn run(&self, chunks: usize, body: &(dyn Fn(usize) + Sync));

    /// Whether other threads may take part. A hint for how to cut and what to ask caches for, which must not change a result.
    fn is_shared(&self) -> bool {
        false
    }
}

/// Runs all chunks on the calling thread, in order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sequential;

impl Parallel for Sequential {
    fn run(&self, chunks: usize, body: &(dyn Fn(usize) + Sync)) {
        (0..chunks).for_each(body);
    }
}

/// Elements of simple work that are worth a chunk: handing one to another thread costs microseconds.
pub(crate) const CHUNK_ELEMENTS: usize = 16 * 1024;

/// Chunks of a command so long that they may be larger: memory is best read in long ranges.
const MAX_CHUNKS: usize = 1024;

/// Runs a body for `0..items`, in ranges that threads share. An item has `work_per_item`, and a range at least
/// about [`CHUNK_ELEMENTS`] of work. A single range runs on the calling thread at once.
#[inline]
pub(crate) fn parallel_for(
    parallel: &dyn Parallel,
    items: usize,
    work_per_item: usize,
    body: impl Fn(Range<usize>) + Sync,
) {
    share(parallel, items, work_per_item, &body);
}

/// Compiled once: an indirect call is nothing beside the work of a range.
fn share(
    parallel: &dyn Parallel,
    items: usize,
    work_per_item: usize,
    body: &(dyn Fn(Range<usize>) + Sync),
) {
    if items == 0 {
        return;
    }
    let least = (CHUNK_ELEMENTS / work_per_item.max(1)).max(1);
    let per_chunk = least * (items / (least * MAX_CHUNKS)).max(1);
    let chunks = items.div_ceil(per_chunk);
    if chunks == 1 {
        body(0..items);
    } else {
        parallel.run(chunks, &|chunk| {
            body(chunk * per_chunk..((chunk + 1) * per_chunk).min(items));
        });
    }
}

/// A pointer that the chunks of one Command share.
#[derive(Clone, Copy)]
pub(crate) struct SendPtr<T>(*mut T);

// SAFETY: the pointer itself is plain data. Whoever goes through it shows that chunks write disjoint
// elements and read what no other chunk writes.
unsafe impl<T> Send for SendPtr<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for SendPtr<T> {}

impl<T> SendPtr<T> {
    pub fn new(pointer: *mut T) -> Self {
        SendPtr(pointer)
    }

    /// A method, so that closures capture the whole value and not the bare pointer in it.
    pub fn get(self) -> *mut T {
        self.0
    }
}

#[cfg(test)]
mod tests;
