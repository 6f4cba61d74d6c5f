//! The order in which the elements of one row are combined.
//!
//! Element `i` of a row goes to partial `i % LANES`, and the partials are merged at the end in a
//! fixed tree. So the order depends on the length of the row alone, and the partials, which do not
//! wait for each other, become vectors.

/// Partial results of one row.
pub(super) const LANES: usize = 8;

/// Adds a part of a row to the partials. `first` is the index of the part in the row, a multiple of
/// [`LANES`]; `step` gets the index of each value.
#[inline(always)]
pub(super) fn accumulate<C: Copy, P: Copy>(
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
    for (lane, &value) in rest.iter().enumerate() {
        local[lane] = step(local[lane], value, index + lane);
    }
    *partials = local;
}

/// Merges the partials of a row.
#[inline(always)]
pub(super) fn merge<P: Copy>(partials: [P; LANES], merge: impl Fn(P, P) -> P) -> P {
    let [a, b, c, d, e, f, g, h] = partials;
    merge(merge(merge(a, e), merge(c, g)), merge(merge(b, f), merge(d, h)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_combined_once_whatever_the_parts() {
        let values: Vec<u64> = (1..=37).collect();
        for split in [0, 8, 16, 32] {
            let mut partials = [0; LANES];
            accumulate(&mut partials, 0, &values[..split], |sum, value, _| sum + value);
            accumulate(&mut partials, split, &values[split..], |sum, value, index| {
                assert_eq!(value, index as u64 + 1);
                sum + value
            });
            assert_eq!(partials[0], 1 + 9 + 17 + 25 + 33);
            assert_eq!(merge(partials, |a, b| a + b), 37 * 38 / 2);
        }
    }
}
