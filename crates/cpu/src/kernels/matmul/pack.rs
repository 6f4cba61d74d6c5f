//! Copies operands to the order in which micro-tiles read them.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::problem::Matrix;
use crate::kernels::shared::number::{Float, StoredFloat};
use crate::kernels::shared::simd::Isa;
use crate::kernels::shared::transpose::Transposition;

/// Packs panels of `panel` columns of the rhs, the first of them to `to`: all `k` rows
/// of one panel, then of the next. A panel that the matrix does not fill is filled up with zeros.
///
/// # Safety
///
/// The matrix has `k` rows and `width` columns that nobody writes, `to` has room for the panels,
/// and the CPU has the ISA.
pub(super) unsafe fn pack_rhs<T: StoredFloat>(
    matrix: &Matrix<T>,
    [k, width]: [usize; 2],
    panel: usize,
    panels: Range<usize>,
    to: *mut T,
    isa: Isa,
) {
    let first = panels.start;
    for index in panels {
        let column = index * panel;
        let columns = panel.min(width - column);
        // SAFETY: passed on.
        unsafe {
            let to = to.add((index - first) * panel * k);
            let from = matrix.at(0, column).cast_const();
            if columns < panel {
                for i in 0..panel * k {
                    to.add(i).write(T::narrow(T::Compute::ZERO));
                }
            }
            if matrix.column_stride() == 1 {
                match columns {
                    // A length that is known makes this a few vector moves.
                    32 => copy_rows::<[T; 32], T>(from, matrix.row_stride(), to, panel, k),
                    16 => copy_rows::<[T; 16], T>(from, matrix.row_stride(), to, panel, k),
                    8 => copy_rows::<[T; 8], T>(from, matrix.row_stride(), to, panel, k),
                    _ => {
                        for row in 0..k {
                            let from = from.add(row * matrix.row_stride());
                            to.add(row * panel).copy_from_nonoverlapping(from, columns);
                        }
                    }
                }
            } else if matrix.row_stride() == 1 {
                let (from_stride, to_stride) = (matrix.column_stride(), panel);
                let (lines, length) = (columns, k);
                Transposition { from, from_stride, to, to_stride, lines, length }.run(isa);
            } else {
                for row in 0..k {
                    for i in 0..columns {
                        to.add(row * panel + i).write(matrix.at(row, column + i).read());
                    }
                }
            }
        }
    }
}

/// Copies the first `size_of::<Run>()` bytes of rows.
#[inline(always)]
unsafe fn copy_rows<Run, T>(
    from: *const T,
    from_stride: usize,
    to: *mut T,
    to_stride: usize,
    rows: usize,
) {
    for row in 0..rows {
        // SAFETY: passed on; a run of elements is no more aligned than they are.
        unsafe {
            let run = from.add(row * from_stride).cast::<Run>().read();
            to.add(row * to_stride).cast::<Run>().write(run);
        }
    }
}

/// Packs rows of the lhs for one micro-tile, from column `first` on: for each of `k` columns
/// the numbers of all `rows`.
///
/// # Safety
///
/// The rows and columns belong to the matrix, nobody writes them, `to` has room for them, and the
/// CPU has the ISA.
pub(super) unsafe fn pack_lhs<T: StoredFloat>(
    matrix: &Matrix<T>,
    row: usize,
    rows: usize,
    columns: Range<usize>,
    to: *mut T::Compute,
    isa: Isa,
) {
    let (first, k) = (columns.start, columns.len());
    let stride = matrix.row_stride();
    // SAFETY: passed on.
    unsafe {
        let from = matrix.at(row, first).cast_const();
        if matrix.column_stride() != 1 {
            for column in 0..k {
                for i in 0..rows {
                    let number = matrix.at(row + i, first + column).read().widen();
                    to.add(column * rows + i).write(number);
                }
            }
        } else if T::DIRECT {
            let from = from.cast::<T::Compute>();
            let (from_stride, to_stride) = (stride, rows);
            let (lines, length) = (rows, k);
            Transposition { from, from_stride, to, to_stride, lines, length }.run(isa);
        } else {
            widen_rows::<T>(from, stride, rows, k, to);
        }
    }
}

unsafe fn widen_rows<T: StoredFloat>(
    from: *const T,
    stride: usize,
    rows: usize,
    k: usize,
    to: *mut T::Compute,
) {
    let mut wide = [const { MaybeUninit::uninit() }; 256];
    for row in 0..rows {
        for first in (0..k).step_by(wide.len()) {
            let count = wide.len().min(k - first);
            // SAFETY: the run belongs to the row; `widen_run` writes as many numbers as it is given.
            unsafe {
                let run = std::slice::from_raw_parts(from.add(row * stride + first), count);
                T::widen_run(run, &mut wide[..count]);
                for (i, number) in wide[..count].assume_init_ref().iter().enumerate() {
                    to.add((first + i) * rows + row).write(*number);
                }
            }
        }
    }
}
