//! Computes one block of a product.

use super::tile::{STEPS, Tiles, WIDTH};
use crate::kernels::shared::fault::Result;
use crate::kernels::shared::scratch::with_areas;

/// Products that are packed and added at a time.
const BLOCK_DEPTH: usize = 1024;

/// What a sign bit is flipped with: the same as a shift by 128.
const FLIP: u8 = 0x80;

/// Where zero points go.
pub(crate) struct Zeros<'a> {
    pub left: &'a mut [i32],
    pub right: &'a mut [i32],
}

/// The factors of one block, whose rows and columns count from those of the block.
pub(crate) trait Factors {
    /// Whether the left and the right factor are signed.
    fn signed(&self) -> [bool; 2];

    /// Copies the bytes of a row of the left factor, from step `first` of the depth on.
    ///
    /// # Safety
    ///
    /// The row and the steps belong to the block.
    unsafe fn left(&self, row: usize, first: usize, to: &mut [u8]);

    /// Copies the bytes of one step of the right factor, one for each column.
    ///
    /// # Safety
    ///
    /// The step and the columns belong to the block.
    unsafe fn right(&self, step: usize, to: &mut [u8]);

    /// Gives the zero points of all rows and columns.
    ///
    /// # Safety
    ///
    /// There are as many as the block has.
    unsafe fn zeros(&self, zeros: Zeros<'_>);
}

/// The size of a block.
pub(crate) struct Block {
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
}

impl Block {
    /// Computes the block and hands over every row of the result, which may be changed.
    ///
    /// # Safety
    ///
    /// The factors are those of the block, and nobody writes them.
    pub unsafe fn compute(
        &self,
        factors: &impl Factors,
        mut store: impl FnMut(usize, &mut [i32]),
    ) -> Result {
        let &Block { rows, columns, depth } = self;
        let stride = columns.next_multiple_of(WIDTH);
        let part = depth.min(BLOCK_DEPTH).next_multiple_of(STEPS);
        // One more row, of ones, gives the sums of columns.
        let sizes = [(rows + 1) * stride, rows, columns, rows];
        with_areas(sizes, |[sums, left_zeros, right_zeros, row_sums]: [&mut [i32]; 4]| {
            sums.fill(0);
            row_sums.fill(0);
            // SAFETY: passed on.
            unsafe {
                let (left, right) = (&mut *left_zeros, &mut *right_zeros);
                factors.zeros(Zeros { left, right });
            }
            let [left_signed, right_signed] = factors.signed();
            let shifts = [if left_signed { 128 } else { 0 }, if right_signed { 0 } else { -128 }];
            left_zeros.iter_mut().for_each(|zero| *zero += shifts[0]);
            right_zeros.iter_mut().for_each(|zero| *zero += shifts[1]);
            let has_left = left_zeros.iter().any(|&zero| zero != 0);
            let has_right = right_zeros.iter().any(|&zero| zero != 0);
            let all_rows = rows + usize::from(has_left);

            let sizes = [(rows + 1) * part, stride * part, stride * STEPS];
            with_areas(sizes, |[left, right, seen]: [&mut [u8]; 3]| {
                for first in (0..depth).step_by(BLOCK_DEPTH) {
                    let count = BLOCK_DEPTH.min(depth - first);
                    let padded = count.next_multiple_of(STEPS);
                    for row in 0..rows {
                        let to = &mut left[row * padded..][..padded];
                        // SAFETY: passed on.
                        unsafe { factors.left(row, first, &mut to[..count]) };
                        pack_left(&mut to[..count], left_signed);
                        to[count..].fill(0);
                        if has_right {
                            let sum = to.iter().map(|&byte| i32::from(byte)).sum();
                            row_sums[row] = row_sums[row].wrapping_add(sum);
                        }
                    }
                    left[rows * padded..][..padded].fill(1);
                    // SAFETY: passed on.
                    unsafe { pack_right(factors, columns, first..first + count, seen, right) };
                    let tiles = Tiles {
                        rows: all_rows,
                        columns,
                        groups: padded / STEPS,
                        left: left.as_ptr(),
                        right: right.as_ptr().cast(),
                        sums: sums.as_mut_ptr(),
                        stride,
                    };
                    // SAFETY: the areas have the sizes that the tiles say.
                    unsafe { tiles.add() };
                }
            })?;

            let (sums, column_sums) = sums.split_at_mut(rows * stride);
            for (row, sums) in sums.chunks_exact_mut(stride).enumerate() {
                let sums = &mut sums[..columns];
                if has_left || has_right {
                    let (x, total) = (left_zeros[row], row_sums[row]);
                    let whole = (depth as i32).wrapping_mul(x).wrapping_sub(total);
                    for ((sum, &y), &column) in
                        sums.iter_mut().zip(&*right_zeros).zip(&*column_sums)
                    {
                        let correction = y.wrapping_mul(whole).wrapping_sub(x.wrapping_mul(column));
                        *sum = sum.wrapping_add(correction);
                    }
                }
                store(row, sums);
            }
            Ok(())
        })?
    }
}

fn pack_left(bytes: &mut [u8], signed: bool) {
    if signed {
        bytes.iter_mut().for_each(|byte| *byte ^= FLIP);
    }
}

/// Packs steps of the right factor as panels: groups of steps, in each a few steps of every column.
unsafe fn pack_right(
    factors: &impl Factors,
    columns: usize,
    range: std::ops::Range<usize>,
    seen: &mut [u8],
    to: &mut [u8],
) {
    let flip = if factors.signed()[1] { 0 } else { FLIP };
    let stride = seen.len() / STEPS;
    let padded = range.len().next_multiple_of(STEPS);
    for (group, first) in range.clone().step_by(STEPS).enumerate() {
        for (step, seen) in seen.chunks_exact_mut(stride).enumerate() {
            // Columns and steps beyond the last count as zero after the flip.
            seen[columns..].fill(flip);
            if first + step < range.end {
                // SAFETY: passed on.
                unsafe { factors.right(first + step, &mut seen[..columns]) };
            } else {
                seen.fill(flip);
            }
        }
        for panel in 0..stride / WIDTH {
            let line = |step: usize| -> &[u8; WIDTH] {
                seen[step * stride + panel * WIDTH..].first_chunk().expect("whole panels")
            };
            let [a, b, c, d] = [line(0), line(1), line(2), line(3)];
            let to = &mut to[panel * padded * WIDTH + group * STEPS * WIDTH..][..STEPS * WIDTH];
            let (to, _) = to.as_chunks_mut::<STEPS>();
            for (column, to) in to.iter_mut().enumerate() {
                *to = [a[column], b[column], c[column], d[column]].map(|byte| byte ^ flip);
            }
        }
    }
}
