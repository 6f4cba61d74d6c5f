//! Numbers of products, by which a thread recognizes what it has packed.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static NEXT: Cell<u64> = const { Cell::new(0) };
}

/// A number that no other product of the process has. Threads take many at a time.
pub(super) fn next_product_id() -> u64 {
    const TOGETHER: u64 = 1 << 20;
    static RANGES: AtomicU64 = AtomicU64::new(0);
    let mut id = NEXT.get();
    if id.is_multiple_of(TOGETHER) {
        id = RANGES.fetch_add(1, Ordering::Relaxed) * TOGETHER + 1;
    }
    NEXT.set(id + 1);
    id
}

#[cfg(test)]
mod tests;
