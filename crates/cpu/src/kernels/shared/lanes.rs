//! The order in which the elements of one row are combined.
//!
//! Element `i` of a row goes to partial `i % LANES`, and the partials are merged at the end in a
//! fixed tree. So the order depends on the length of the row alone, and the partials, which do not
//! wait for each other, become vectors.

use std::mem::MaybeUninit;

/// Partial results of one row.
pub(crate) const LANES: usize = 32;

/// Adds a part of a row to the partials. `first` is the index of the part in the row, a multiple of
/// [`LANES`]; `step` gets the index of each value.
#[inline(always)]
pub(crate) fn accumulate<C: Copy, P: Copy>(
    partials: &mut [P; LANES],
    first: usize,
    part: &[C],
    step: impl Fn(P, C, usize) -> P,
) {
    debug_assert!(first.is_multiple_of(LANES));
    let (groups, rest) = part.as_chunks::<LANES>();
    let mut index = first;
    // A copy that the compiler can keep in registers.
    let mut local = *partials;
    for group in groups {
        for lane in 0..LANES {
            local[lane] = step(local[lane], group[lane], index + lane);
        }
        index += LANES;
    }
    *partials = local;
    for (lane, &value) in rest.iter().enumerate() {
        partials[lane] = step(partials[lane], value, index + lane);
    }
}

/// Merges the partials of a row of `count` elements. Those that no element went to are left out.
#[inline(always)]
pub(crate) fn merge<P: Copy>(
    mut partials: [P; LANES],
    count: usize,
    merge: impl Fn(P, P) -> P,
) -> P {
    let mut half = LANES / 2;
    if count <= half {
        half = count.next_power_of_two() / 2;
        while half > 0 {
            for lane in 0..half {
                partials[lane] = merge(partials[lane], partials[lane + half]);
            }
            half /= 2;
        }
        return partials[0];
    }
    // The same with lengths that are known, which the compiler turns into vectors.
    fold::<P, 16>(&mut partials, &merge);
    fold::<P, 8>(&mut partials, &merge);
    fold::<P, 4>(&mut partials, &merge);
    fold::<P, 2>(&mut partials, &merge);
    fold::<P, 1>(&mut partials, &merge);
    partials[0]
}

/// Merges the second `HALF` of the partials with the first.
#[inline(always)]
fn fold<P: Copy, const HALF: usize>(partials: &mut [P; LANES], merge: &impl Fn(P, P) -> P) {
    for lane in 0..HALF {
        partials[lane] = merge(partials[lane], partials[lane + HALF]);
    }
}

/// The partials of `WIDTH` neighboring columns, whose elements come row by row.
pub(crate) struct Columns<P, const WIDTH: usize> {
    partials: [MaybeUninit<[P; WIDTH]>; LANES],
    start: P,
    /// Elements of each column.
    count: usize,
}

impl<P: Copy, const WIDTH: usize> Columns<P, WIDTH> {
    /// Columns of `count` elements, of which none has been seen.
    #[inline(always)]
    pub fn new(start: P, count: usize) -> Self {
        let mut partials = [const { MaybeUninit::uninit() }; LANES];
        // Short columns do not pay for partials that nothing goes to.
        for partial in partials.iter_mut().take(count) {
            partial.write([start; WIDTH]);
        }
        Columns { partials, start, count }
    }

    /// The partials that row `index` goes to.
    ///
    /// # Panics
    ///
    /// There is no such row.
    #[inline(always)]
    pub fn row(&mut self, index: usize) -> &mut [P; WIDTH] {
        assert!(index < self.count);
        // SAFETY: as many partials as there are rows were initialized, or all.
        unsafe { self.partials[index % LANES].assume_init_mut() }
    }

    /// Merges the partials of each column.
    #[inline(always)]
    pub fn merge(mut self, merge: impl Fn(P, P) -> P) -> [P; WIDTH] {
        if self.count == 0 {
            return [self.start; WIDTH];
        }
        let used = self.count.min(LANES);
        let mut half = used.next_power_of_two() / 2;
        while half > 0 {
            let (left, right) = self.partials.split_at_mut(half);
            // Where no element went there is nothing to merge.
            for (lane, (left, right)) in left.iter_mut().zip(right).enumerate() {
                let right = if lane + half < used {
                    // SAFETY: as many partials were initialized as there are rows, or all.
                    unsafe { right.assume_init_ref() }
                } else {
                    &[self.start; WIDTH]
                };
                // SAFETY: as above; what is on the left of others was used too.
                let left = unsafe { left.assume_init_mut() };
                for (left, &right) in left.iter_mut().zip(right) {
                    *left = merge(*left, right);
                }
            }
            half /= 2;
        }
        // SAFETY: as above.
        unsafe { self.partials[0].assume_init() }
    }
}

#[cfg(test)]
mod tests;
