//! Where the macro-kernel reads its operands: packed, or in place.

use std::ops::Range;

use super::problem::{Matrix, Tile};
use crate::kernels::shared::number::StoredFloat;

/// Where the panels of the rhs come from.
#[derive(Clone, Copy)]
pub(super) enum Rhs<T> {
    /// The first of the panels.
    Packed(*const T),
    /// Each part is packed to this area when its turn comes.
    Unpacked(*mut T),
}

/// Where the rows of the lhs come from.
#[derive(Clone, Copy)]
pub(super) enum Lhs<T: StoredFloat> {
    /// All rows, packed by the macro-kernel.
    Packed(*const T::Compute),
    /// The rows of each part are packed to this area when its turn comes.
    PartByPart(*mut T::Compute),
    /// The operand itself.
    Unpacked(Matrix<T>),
}

impl<T: StoredFloat> Lhs<T> {
    /// Some rows of one part: the first number, and the strides of rows and of k.
    ///
    /// # Safety
    ///
    /// Rows and part are of the tile, and as they were packed.
    pub unsafe fn at(
        self,
        tile: &Tile<'_, T>,
        rows: &Range<usize>,
        part: &Range<usize>,
    ) -> (*const T::Compute, usize, usize) {
        // SAFETY: passed on.
        unsafe {
            match self {
                Lhs::Packed(first) => {
                    let place = part.start * tile.rows + rows.start * part.len();
                    (first.add(place), 1, rows.len())
                }
                Lhs::PartByPart(first) => {
                    (first.add(rows.start * part.len()).cast_const(), 1, rows.len())
                }
                Lhs::Unpacked(matrix) => {
                    let first = matrix.at(rows.start, part.start).cast_const().cast();
                    (first, matrix.row_stride(), matrix.column_stride())
                }
            }
        }
    }
}

/// Whether the rows of a micro-tile are read in place. Rows a multiple of a page apart would displace
/// each other in the first-level cache.
pub(super) fn is_read_in_place<T: StoredFloat>(lhs: &Matrix<T>) -> bool {
    const PAGE: usize = 4096;
    T::DIRECT
        && lhs.column_stride() == 1
        && !(lhs.row_stride() * size_of::<T>()).is_multiple_of(PAGE)
}

/// The rhs of one part.
pub(super) struct Panels<T> {
    /// The first packed panel.
    pub first: *const T,
    /// Elements between packed panels.
    pub stride: usize,
    /// The rhs itself, and how many of its first panels are read there.
    pub plain: Option<(Matrix<T>, usize)>,
}

impl<T: Copy> Panels<T> {
    /// A panel, with the strides of k and of panels.
    ///
    /// # Safety
    ///
    /// The panel is one of the part.
    pub unsafe fn at(&self, index: usize, width: usize) -> (*const T, usize, usize) {
        match self.plain {
            Some((matrix, count)) if index < count => {
                // SAFETY: passed on.
                let first = unsafe { matrix.at(0, index * width) };
                (first.cast_const(), matrix.row_stride(), width)
            }
            _ => (self.first.wrapping_add(index * self.stride), width, self.stride),
        }
    }
}
