//! The place of the largest or smallest element.

/// The best element so far, and its place.
type Best<C> = Option<(C, usize)>;

/// Which element wins.
#[derive(Clone, Copy)]
pub(super) struct Extreme<F> {
    /// Whether the first element is better than the second.
    pub better: F,
    /// Whether the last of equals counts.
    pub last: bool,
}

impl<F> Extreme<F> {
    /// Adds an element.
    #[inline(always)]
    pub fn step<C: Copy>(&self, best: Best<C>, value: C, index: usize) -> Best<C>
    where
        F: Fn(C, C) -> bool,
    {
        match best {
            // Within a partial, indices rise, so an equal element is a later one.
            Some((old, _))
                if !(self.better)(value, old) && (!self.last || (self.better)(old, value)) =>
            {
                best
            }
            _ => Some((value, index)),
        }
    }

    /// Joins two partials.
    #[inline(always)]
    pub fn merge<C: Copy>(&self, a: Best<C>, b: Best<C>) -> Best<C>
    where
        F: Fn(C, C) -> bool,
    {
        match (a, b) {
            (Some((left, i)), Some((right, j))) => {
                let b_first = if self.last { j > i } else { j < i };
                let b_wins = (self.better)(right, left) || (b_first && !(self.better)(left, right));
                if b_wins { b } else { a }
            }
            _ => a.or(b),
        }
    }
}

/// The place that is stored.
pub(super) fn index<C>(best: Best<C>) -> i64 {
    best.map_or(0, |(_, index)| index as i64)
}
