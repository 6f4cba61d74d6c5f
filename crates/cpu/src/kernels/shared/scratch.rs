//! Scratch memory: areas that each thread keeps from one command to the next, and lists.
//!
//! An axis that repeats one element may be of any size, so scratch memory is bounded by the machine and
//! not by the operands. What cannot be had is a fault of the Command.

use std::cell::{Cell, RefCell};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::fault::{KernelFault, Result};
use crate::memory::{self, prefer_huge_pages};

/// What a thread can always have.
const LEAST_LIMIT: usize = 64 << 20;

/// Bytes that one thread may use at a time: its share of half the memory of the machine. More would be
/// promised by many systems, which then end the process when it is touched.
fn limit() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        (memory::total() / (2 * cores)).max(LEAST_LIMIT)
    })
}

/// Bytes of an area that a thread keeps when a Command is done. There may be many threads, and most of them
/// idle: larger areas are shared by those that compute.
const KEPT_BYTES: usize = 1 << 20;

/// Large areas that nobody uses, and the largest that is kept: enough for a few threads that compute. Whoever
/// finds the lock taken does without, so that nobody waits here.
static SPARE: Mutex<Vec<Area>> = Mutex::new(Vec::new());
const MOST_SPARE: usize = 8;
const LARGEST_SPARE: usize = 32 << 20;

/// Memory for numbers, as lines of the cache.
pub(crate) type Area = Vec<Line>;

/// An area of at least so many lines: `memory` if it suffices, else a spare or a new one.
pub(crate) fn grown(mut memory: Area, lines: usize) -> Result<Area> {
    if memory.len() >= lines {
        return Ok(memory);
    }
    let bytes = lines.saturating_mul(size_of::<Line>());
    if bytes > KEPT_BYTES {
        HAS_LARGE.set(true);
        if let Some(spare) = take_spare(lines) {
            return Ok(spare);
        }
    }
    memory.clear();
    reserve(&mut memory, lines)?;
    prefer_huge_pages(memory.as_mut_ptr().cast(), bytes);
    memory.resize(lines, Line([0; 64]));
    Ok(memory)
}

/// The smallest spare area that suffices.
fn take_spare(lines: usize) -> Option<Area> {
    let mut spare = SPARE.try_lock().ok()?;
    let enough = spare.iter().enumerate().filter(|(_, area)| area.len() >= lines);
    let (index, _) = enough.min_by_key(|(_, area)| area.len())?;
    Some(spare.swap_remove(index))
}

/// Takes an area from a thread that is done with a Command, if it is large. Gives back what the thread keeps.
pub(crate) fn kept(area: Area) -> Area {
    let bytes = size_of_val(&area[..]);
    if bytes <= KEPT_BYTES {
        return area;
    }
    if bytes <= LARGEST_SPARE
        && let Ok(mut spare) = SPARE.try_lock()
        && spare.len() < MOST_SPARE
    {
        spare.push(area);
    }
    Area::new()
}

/// Frees the large areas that nobody uses.
pub(crate) fn empty_spare() {
    let spare = std::mem::take(&mut *SPARE.lock().unwrap_or_else(PoisonError::into_inner));
    drop(spare);
}

/// Hands the calling thread's large areas on. To be called when it is done with a Command.
#[inline]
pub(crate) fn trim() {
    if HAS_LARGE.replace(false) {
        trim_areas();
    }
}

#[cold]
fn trim_areas() {
    KEPT.with_borrow_mut(|areas| {
        areas.iter_mut().for_each(|area| *area = kept(std::mem::take(area)));
        areas.retain(|area| !area.is_empty());
    });
    crate::kernels::matmul::trim_areas();
}

/// Makes room for so many elements in all, or says that there is none.
pub(crate) fn reserve<T>(list: &mut Vec<T>, count: usize) -> Result {
    let bytes = count.saturating_mul(size_of::<T>());
    if bytes > limit() || list.try_reserve_exact(count.saturating_sub(list.len())).is_err() {
        return Err(KernelFault::scratch(bytes));
    }
    Ok(())
}

/// A list of so many equal elements.
pub(crate) fn filled<T: Clone>(count: usize, value: T) -> Result<Vec<T>> {
    let mut list = Vec::new();
    reserve(&mut list, count)?;
    list.resize(count, value);
    Ok(list)
}

/// A list of the elements of an iterator.
pub(crate) fn collected<T>(elements: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut list = Vec::new();
    reserve(&mut list, elements.len())?;
    list.extend(elements);
    Ok(list)
}

/// Adds an element to a list whose length is not known beforehand.
#[inline]
pub(crate) fn push<T>(list: &mut Vec<T>, value: T) -> Result {
    if list.len() == list.capacity() {
        reserve(list, (2 * list.len()).max(16))?;
    }
    list.push(value);
    Ok(())
}

/// One line of the cache, so that every area begins on one.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Line(#[allow(dead_code, reason = "read as numbers")] [u8; 64]);

thread_local! {
    // A stack, so that a nested use finds memory of its own.
    static KEPT: RefCell<Vec<Area>> = const { RefCell::new(Vec::new()) };
    /// Whether the thread has an area that is too large to keep.
    static HAS_LARGE: Cell<bool> = const { Cell::new(false) };
}

/// Numbers of which any bytes are one.
///
/// # Safety
///
/// Any initialized bytes are a value of the type, and 64 bytes are aligned for it.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: any bits are a floating-point number.
unsafe impl Plain for f32 {}
// SAFETY: as above.
unsafe impl Plain for f64 {}
// SAFETY: any bits are an integer.
unsafe impl Plain for i32 {}
// SAFETY: as above.
unsafe impl Plain for i64 {}
// SAFETY: as above.
unsafe impl Plain for u8 {}

/// Calls `body` with areas of exactly so many numbers each, aligned to 64 bytes. Their content is
/// arbitrary. Sizes that do not fit a word are given as the largest one.
pub(crate) fn with_areas<T: Plain, R, const N: usize>(
    sizes: [usize; N],
    body: impl FnOnce([&mut [T]; N]) -> R,
) -> Result<R> {
    let lines = sizes.map(|size| size.saturating_mul(size_of::<T>()).div_ceil(size_of::<Line>()));
    let memory = KEPT.with_borrow_mut(Vec::pop).unwrap_or_default();
    let total = lines.iter().fold(0, |sum: usize, &lines| sum.saturating_add(lines));
    let mut memory = grown(memory, total)?;
    let mut rest = &mut memory[..];
    let areas = std::array::from_fn(|index| {
        let (area, after) = std::mem::take(&mut rest).split_at_mut(lines[index]);
        rest = after;
        // SAFETY: the lines have at least so many bytes, which are initialized and aligned.
        unsafe { std::slice::from_raw_parts_mut(area.as_mut_ptr().cast(), sizes[index]) }
    });
    let result = body(areas);
    KEPT.with_borrow_mut(|kept| kept.push(memory));
    Ok(result)
}

#[cfg(test)]
mod tests;
