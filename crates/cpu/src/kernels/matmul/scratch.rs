//! Memory for packed factors, kept by each thread from one product to the next.

use std::cell::Cell;

use super::super::number::Float;

/// One line of the cache, so that packed panels begin on one.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code, reason = "read as numbers")] [u8; 64]);

thread_local! {
    static KEPT: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Calls `body` with three areas of at least so many numbers each. Their content is arbitrary.
pub(super) fn with_areas<F: Float, R>(
    sizes: [usize; 3],
    body: impl FnOnce([&mut [F]; 3]) -> R,
) -> R {
    let lines = sizes.map(|size| (size * size_of::<F>()).div_ceil(size_of::<Line>()));
    // Taken out while in use, so that a nested call, should there ever be one, gets its own.
    let mut memory = KEPT.take();
    let total = lines.iter().sum();
    if memory.len() < total {
        memory.resize(total, Line([0; 64]));
    }
    let (first, rest) = memory.split_at_mut(lines[0]);
    let (second, rest) = rest.split_at_mut(lines[1]);
    let third = &mut rest[..lines[2]];
    let result = body([first, second, third].map(numbers));
    KEPT.set(memory);
    result
}

fn numbers<F: Float>(lines: &mut [Line]) -> &mut [F] {
    let count = size_of_val(lines) / size_of::<F>();
    // SAFETY: `Float` is `f32` or `f64`, for which any initialised bytes are a value; a line is
    // aligned for both, and the count covers exactly the same bytes.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_large_enough_aligned_and_apart() {
        with_areas::<f32, _>([3, 0, 40], |[a, b, c]| {
            assert!(a.len() >= 3 && c.len() >= 40);
            assert!(b.is_empty());
            assert_eq!(a.as_ptr() as usize % 64, 0);
            a.fill(1.0);
            c.fill(2.0);
            // A nested use has memory of its own.
            with_areas::<f64, _>([100, 100, 100], |areas| {
                areas.into_iter().for_each(|area| area.fill(7.0));
            });
            assert!(a.iter().all(|&x| x == 1.0) && c.iter().all(|&x| x == 2.0));
        });
    }
}
