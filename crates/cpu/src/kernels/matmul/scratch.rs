//! Memory for packed operands and sums, kept by each thread from one product to the next.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::LocalKey;

use crate::kernels::shared::fault::Result;
use crate::kernels::shared::scratch::{Line, grown, kept};

/// One area of a thread, and what was put there last.
pub(super) struct Area {
    memory: Cell<Vec<Line>>,
    content: Cell<Option<Content>>,
}

/// What a packed lhs was made from: a product, by [`new_name`], and where its rows begin.
pub(super) type Content = (u64, usize, usize);

impl Area {
    const fn new() -> Self {
        Area { memory: Cell::new(Vec::new()), content: Cell::new(None) }
    }
}

thread_local! {
    /// For packed rows of the lhs.
    pub(super) static LHS: Area = const { Area::new() };
    /// For the packed rhs.
    pub(super) static RHS: Area = const { Area::new() };
    /// For sums that cannot be kept in the output.
    pub(super) static SUMS: Area = const { Area::new() };
    static NEXT_NAME: Cell<u64> = const { Cell::new(0) };
}

/// A number that no other product of the process has. Threads take many at a time.
pub(super) fn new_name() -> u64 {
    const TOGETHER: u64 = 1 << 20;
    static BLOCKS: AtomicU64 = AtomicU64::new(0);
    let mut name = NEXT_NAME.get();
    if name.is_multiple_of(TOGETHER) {
        name = BLOCKS.fetch_add(1, Ordering::Relaxed) * TOGETHER + 1;
    }
    NEXT_NAME.set(name + 1);
    name
}

/// Calls `body` with an area of at least so many numbers and whether it holds `content` already.
/// If not, its content is arbitrary, and `body` must put `content` there.
pub(super) fn with_area<T: Copy, R>(
    area: &'static LocalKey<Area>,
    size: usize,
    content: Option<Content>,
    body: impl FnOnce(*mut T, bool) -> R,
) -> Result<R> {
    // Taken out while in use, so that a nested call, should there ever be one, gets its own.
    let (memory, known) = area.with(|area| (area.memory.take(), area.content.take()));
    let lines = size.saturating_mul(size_of::<T>()).div_ceil(size_of::<Line>());
    let known = memory.len() >= lines && content.is_some() && known == content;
    let mut memory = grown(memory, lines)?;
    let result = body(memory.as_mut_ptr().cast(), known);
    area.with(|area| {
        area.memory.set(memory);
        area.content.set(content);
    });
    Ok(result)
}

/// Hands the areas of the calling thread on that are too large to keep.
pub(crate) fn trim_areas() {
    for area in [&LHS, &RHS, &SUMS] {
        area.with(|area| {
            let memory = kept(area.memory.take());
            if memory.is_empty() {
                area.content.set(None);
            }
            area.memory.set(memory);
        });
    }
}

#[cfg(test)]
mod tests;
