//! Lengths of sequences and positions in them: one for each of a batch, or a row of them.

use millstream_core::{DType, Operand, RawBuffer};

use super::block::base;
use super::parallel::Shared;

/// Numbers with the distance between them.
#[derive(Clone, Copy)]
pub(crate) enum Lengths {
    Short(Shared<i32>, usize),
    Long(Shared<i64>, usize),
}

impl Lengths {
    /// # Safety
    ///
    /// The operand has the type `i32` or `i64`, and its address is a host pointer.
    pub unsafe fn new(operand: &Operand<RawBuffer>) -> Self {
        let stride = operand.layout.strides().last().copied().unwrap_or(0);
        // SAFETY: passed on.
        unsafe {
            match operand.layout.dtype() {
                DType::I64 => Lengths::Long(Shared::new(base(operand)), stride),
                _ => Lengths::Short(Shared::new(base(operand)), stride),
            }
        }
    }

    /// The number at a place of the last axis, in the row that begins at element `row`, as it is given.
    ///
    /// # Safety
    ///
    /// The operand has that place, and nobody writes to it.
    pub unsafe fn given(self, row: usize, place: usize) -> i64 {
        // SAFETY: passed on.
        unsafe {
            match self {
                Lengths::Short(first, stride) => {
                    i64::from(first.get().add(row + place * stride).read())
                }
                Lengths::Long(first, stride) => first.get().add(row + place * stride).read(),
            }
        }
    }

    /// A length of `0 ..= most`, whatever number is given for it.
    ///
    /// # Safety
    ///
    /// As for [`given`](Self::given).
    pub unsafe fn at(self, place: usize, most: usize) -> usize {
        // SAFETY: passed on.
        usize::try_from(unsafe { self.given(0, place) }).map_or(0, |length| length.min(most))
    }
}
