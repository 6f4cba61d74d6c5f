//! Axes, sizes and indices as arguments. Negative numbers count from the end.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use millstream_core::Axes;

use crate::Result;
use crate::error::invalid;

/// The number of an axis. A negative number counts from the end: -1 is the last axis.
pub trait Axis: Copy {
    /// The number, which may be negative.
    fn number(self) -> isize;

    #[doc(hidden)]
    fn resolve(self, op: &'static str, rank: usize) -> Result<usize> {
        let number = self.number();
        let axis = if number < 0 { number.checked_add_unsigned(rank) } else { Some(number) };
        match axis.and_then(|axis| usize::try_from(axis).ok()).filter(|&axis| axis < rank) {
            Some(axis) => Ok(axis),
            None => invalid(op, format!("axis {number}, but the tensor has {rank} axes")),
        }
    }
}

/// The size of an axis, where -1 stands for the size that is left.
pub trait Size: Copy {
    /// The size, or `None` for the size that is left. A number below -1 becomes a size that no tensor has.
    fn size(self) -> Option<usize>;
}

/// An index along an axis. A negative index counts from the end: -1 is the last.
pub trait Index: Copy {
    /// The number, which may be negative.
    fn index(self) -> isize;

    /// The index on an axis of that size, counted from the beginning. An index out of range stays out of range.
    #[doc(hidden)]
    fn on(self, size: usize) -> usize {
        let index = self.index();
        let index = if index < 0 { index.checked_add_unsigned(size) } else { Some(index) };
        index.and_then(|index| usize::try_from(index).ok()).unwrap_or(usize::MAX)
    }
}

/// A range of indices along an axis: `1..3`, `-2..`, `..=4`, `..`.
pub trait IndexRange: Clone {
    /// The first index and the index after the last, on an axis of that size.
    #[doc(hidden)]
    fn on(&self, size: usize) -> (usize, usize);

    #[doc(hidden)]
    fn text(&self) -> String;
}

macro_rules! ranges {
    ($($range:ident, $self:ident, $size:ident: $start:expr, $end:expr, $text:expr;)*) => {
        $(
            impl<P: Index> IndexRange for $range<P> {
                fn on(&$self, $size: usize) -> (usize, usize) {
                    ($start, $end)
                }

                fn text(&$self) -> String {
                    $text
                }
            }
        )*
    };
}

ranges! {
    Range, self, size: self.start.on(size), self.end.on(size),
        format!("{}..{}", self.start.index(), self.end.index());
    RangeFrom, self, size: self.start.on(size), size, format!("{}..", self.start.index());
    RangeTo, self, size: 0, self.end.on(size), format!("..{}", self.end.index());
    RangeInclusive, self, size: self.start().on(size), self.end().on(size).saturating_add(1),
        format!("{}..={}", self.start().index(), self.end().index());
    RangeToInclusive, self, size: 0, self.end.on(size).saturating_add(1),
        format!("..={}", self.end.index());
}

impl IndexRange for RangeFull {
    fn on(&self, size: usize) -> (usize, usize) {
        (0, size)
    }

    fn text(&self) -> String {
        "..".into()
    }
}

macro_rules! integers {
    ($($integer:ty),*) => {
        $(
            impl Axis for $integer {
                fn number(self) -> isize {
                    isize::try_from(self).unwrap_or(isize::MAX)
                }
            }

            impl Index for $integer {
                fn index(self) -> isize {
                    isize::try_from(self).unwrap_or(isize::MAX)
                }
            }

            impl Size for $integer {
                fn size(self) -> Option<usize> {
                    match usize::try_from(self) {
                        Ok(size) => Some(size),
                        Err(_) if isize::try_from(self) == Ok(-1) => None,
                        Err(_) => Some(usize::MAX),
                    }
                }
            }

            impl AxisSet for $integer {
                fn axes(&self, op: &'static str, rank: usize) -> Result<Axes> {
                    [*self].axes(op, rank)
                }
            }
        )*
    };
}

integers!(i32, isize, usize);

/// One axis, several (`[0, -1]`), or all (`..`).
pub trait AxisSet {
    #[doc(hidden)]
    fn axes(&self, op: &'static str, rank: usize) -> Result<Axes>;
}

impl<A: Axis> AxisSet for [A] {
    fn axes(&self, op: &'static str, rank: usize) -> Result<Axes> {
        let axes = self
            .iter()
            .map(|axis| axis.resolve(op, rank))
            .collect::<Result<smallvec::SmallVec<[usize; 8]>>>()?;
        Axes::new(&axes).map_err(|error| crate::error::named(op, error))
    }
}

impl<A: Axis, const N: usize> AxisSet for [A; N] {
    fn axes(&self, op: &'static str, rank: usize) -> Result<Axes> {
        self[..].axes(op, rank)
    }
}

impl<S: AxisSet + ?Sized> AxisSet for &S {
    fn axes(&self, op: &'static str, rank: usize) -> Result<Axes> {
        (**self).axes(op, rank)
    }
}

impl AxisSet for RangeFull {
    fn axes(&self, _: &'static str, rank: usize) -> Result<Axes> {
        Ok(Axes::all(rank))
    }
}
