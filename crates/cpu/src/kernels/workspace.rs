//! Scratch memory that each thread keeps from one command to the next.

use std::cell::RefCell;

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
/// arbitrary.
pub(super) fn with_areas<T: Plain, R, const N: usize>(
    sizes: [usize; N],
    body: impl FnOnce([&mut [T]; N]) -> R,
) -> R {
    let lines = sizes.map(|size| (size * size_of::<T>()).div_ceil(size_of::<Line>()));
    let mut memory = KEPT.with_borrow_mut(Vec::pop).unwrap_or_default();
    let total = lines.iter().sum();
    if memory.len() < total {
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
    result
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
            });
            assert!(a.iter().all(|&x| x == 1.0) && c.iter().all(|&x| x == 2.0));
        });
    }
}
