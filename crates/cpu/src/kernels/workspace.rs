//! Scratch memory: areas that each thread keeps from one command to the next, and lists.
//!
//! An axis that repeats one element may be of any size, so scratch memory is bounded by the machine and
//! not by the operands. What cannot be had is a fault of the Command.

use std::cell::RefCell;
use std::sync::OnceLock;

use super::fault::{KernelFault, Result};
use crate::memory;

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

/// Makes room for so many elements in all, or says that there is none.
pub(super) fn reserve<T>(list: &mut Vec<T>, count: usize) -> Result {
    let bytes = count.saturating_mul(size_of::<T>());
    if bytes > limit() || list.try_reserve_exact(count.saturating_sub(list.len())).is_err() {
        return Err(KernelFault::scratch(bytes));
    }
    Ok(())
}

/// A list of so many equal elements.
pub(super) fn filled<T: Clone>(count: usize, value: T) -> Result<Vec<T>> {
    let mut list = Vec::new();
    reserve(&mut list, count)?;
    list.resize(count, value);
    Ok(list)
}

/// A list of the elements of an iterator.
pub(super) fn collected<T>(elements: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut list = Vec::new();
    reserve(&mut list, elements.len())?;
    list.extend(elements);
    Ok(list)
}

/// Adds an element to a list whose length is not known beforehand.
#[inline]
pub(super) fn push<T>(list: &mut Vec<T>, value: T) -> Result {
    if list.len() == list.capacity() {
        reserve(list, (2 * list.len()).max(16))?;
    }
    list.push(value);
    Ok(())
}

/// One line of the cache, so that every area begins on one.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code, reason = "read as numbers")] [u8; 64]);

thread_local! {
    // A stack, so that a nested use finds memory of its own.
    static KEPT: RefCell<Vec<Vec<Line>>> = const { RefCell::new(Vec::new()) };
}

/// Numbers of which any bytes are one.
///
/// # Safety
///
/// Any initialised bytes are a value of the type, and 64 bytes are aligned for it.
pub(super) unsafe trait Plain: Copy {}

// SAFETY: any bits are a floating-point number.
unsafe impl Plain for f32 {}
// SAFETY: as above.
unsafe impl Plain for f64 {}
// SAFETY: any bits are an integer.
unsafe impl Plain for i32 {}
// SAFETY: as above.
unsafe impl Plain for u8 {}

/// Calls `body` with areas of exactly so many numbers each, aligned to 64 bytes. Their content is
/// arbitrary. Sizes that do not fit a word are given as the largest one.
pub(super) fn with_areas<T: Plain, R, const N: usize>(
    sizes: [usize; N],
    body: impl FnOnce([&mut [T]; N]) -> R,
) -> Result<R> {
    let lines = sizes.map(|size| size.saturating_mul(size_of::<T>()).div_ceil(size_of::<Line>()));
    let mut memory = KEPT.with_borrow_mut(Vec::pop).unwrap_or_default();
    let total = lines.iter().fold(0, |sum: usize, &lines| sum.saturating_add(lines));
    if memory.len() < total {
        memory.clear();
        reserve(&mut memory, total)?;
        memory.resize(total, Line([0; 64]));
    }
    let mut rest = &mut memory[..];
    let areas = std::array::from_fn(|index| {
        let (area, after) = std::mem::take(&mut rest).split_at_mut(lines[index]);
        rest = after;
        // SAFETY: the lines have at least so many bytes, which are initialised and aligned.
        unsafe { std::slice::from_raw_parts_mut(area.as_mut_ptr().cast(), sizes[index]) }
    });
    let result = body(areas);
    KEPT.with_borrow_mut(|kept| kept.push(memory));
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_aligned_and_apart_and_nested_uses_too() {
        with_areas([3, 0, 40], |[a, b, c]: [&mut [f32]; 3]| {
            assert_eq!((a.len(), b.len(), c.len()), (3, 0, 40));
            assert_eq!(c.as_ptr() as usize % 64, 0);
            a.fill(1.0);
            c.fill(2.0);
            with_areas([100, 100], |areas: [&mut [u8]; 2]| {
                areas.into_iter().for_each(|area| area.fill(7));
            })
            .unwrap();
            assert!(a.iter().all(|&x| x == 1.0) && c.iter().all(|&x| x == 2.0));
        })
        .unwrap();
    }

    #[test]
    fn memory_that_cannot_be_had_is_a_fault() {
        for size in [usize::MAX, 1 << 50] {
            let fault = with_areas([1, size], |_: [&mut [f64]; 2]| ()).unwrap_err();
            assert!(fault.message().contains("scratch memory"), "{fault}");
            assert!(filled(size, 0u64).is_err());
        }
        // The thread goes on.
        assert_eq!(with_areas([2], |[area]: [&mut [i32]; 1]| area.len()), Ok(2));
        let mut list = Vec::new();
        (0..100).for_each(|i| push(&mut list, i).unwrap());
        assert_eq!(list, collected(0..100).unwrap());
    }
}
