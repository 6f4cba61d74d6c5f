//! Copies a part of a factor to the order in which tiles read it.

use std::mem::MaybeUninit;

use super::super::number::{Float, StoredFloat};
use super::problem::Matrix;

/// Packs `width` columns and `depth` rows of a matrix, from row `first` on, as panels of `PANEL`
/// columns: all rows of the first panel, then of the next. The last panel is filled up with zeros.
///
/// For the left factor, whose panels are of rows, the matrix is given transposed.
///
/// # Safety
///
/// The elements belong to the matrix, and nobody writes them.
pub(super) unsafe fn pack<T: StoredFloat, const PANEL: usize>(
    matrix: &Matrix<T>,
    first: usize,
    depth: usize,
    width: usize,
    to: &mut [T::Compute],
) {
    let panels = to.chunks_exact_mut(depth * PANEL).take(width.div_ceil(PANEL));
    for (panel, to) in panels.enumerate() {
        let column = panel * PANEL;
        let columns = PANEL.min(width - column);
        let (rows, _) = to.as_chunks_mut::<PANEL>();
        if columns < PANEL {
            rows.fill([T::Compute::ZERO; PANEL]);
        }
        // SAFETY: passed on.
        unsafe {
            if matrix.column_stride() == 1 {
                by_rows(matrix, first, column, columns, rows);
            } else {
                by_columns(matrix, first, column, columns, rows);
            }
        }
    }
}

/// Reads along rows, whose elements are neighbours.
unsafe fn by_rows<T: StoredFloat, const PANEL: usize>(
    matrix: &Matrix<T>,
    first: usize,
    column: usize,
    columns: usize,
    rows: &mut [[T::Compute; PANEL]],
) {
    let mut wide = [const { MaybeUninit::uninit() }; PANEL];
    for (row, to) in rows.iter_mut().enumerate() {
        // SAFETY: passed on.
        let from = unsafe { matrix.at(first + row, column) };
        if columns == PANEL {
            // A length that is known makes this a few vector moves.
            // SAFETY: passed on; `widen_run` writes all of `wide`.
            unsafe {
                T::widen_run(std::slice::from_raw_parts(from, PANEL), &mut wide);
                to.copy_from_slice(wide.assume_init_ref());
            }
        } else {
            for (i, to) in to[..columns].iter_mut().enumerate() {
                // SAFETY: passed on.
                *to = unsafe { from.add(i).read() }.widen();
            }
        }
    }
}

/// Reads a few neighbouring rows of each column in turn: where the elements of a column are
/// neighbours, a line of the cache is used up before the next is asked for.
unsafe fn by_columns<T: StoredFloat, const PANEL: usize>(
    matrix: &Matrix<T>,
    first: usize,
    column: usize,
    columns: usize,
    rows: &mut [[T::Compute; PANEL]],
) {
    const TOGETHER: usize = 16;
    let stride = matrix.row_stride();
    for (part, rows) in rows.chunks_mut(TOGETHER).enumerate() {
        for i in 0..columns {
            // SAFETY: passed on.
            let from = unsafe { matrix.at(first + part * TOGETHER, column + i) };
            for (row, to) in rows.iter_mut().enumerate() {
                // SAFETY: passed on.
                to[i] = unsafe { from.add(row * stride).read() }.widen();
            }
        }
    }
}
