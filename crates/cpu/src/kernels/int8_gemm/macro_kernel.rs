//! The macro-kernel: computes one tile of a product.

use super::micro_kernel::{MicroTiles, STEPS, WIDTH};
use crate::kernels::shared::fault::Result;
use crate::kernels::shared::scratch::with_scratch;
use crate::kernels::shared::simd::{SimdFn, vectorized};

/// Products that are packed and added at a time.
const TILE_K: usize = 1024;

/// What a sign bit is flipped with: the same as a shift by 128.
const FLIP: u8 = 0x80;

/// Where zero points go.
pub(crate) struct Zeros<'a> {
    pub lhs: &'a mut [i32],
    pub rhs: &'a mut [i32],
}

/// The operands of one tile, whose rows and columns count from those of the tile.
pub(crate) trait TileOperands {
    /// Whether the lhs and the rhs are signed.
    fn signed(&self) -> [bool; 2];

    /// Copies the bytes of a row of the lhs, from step `first` of k on.
    ///
    /// # Safety
    ///
    /// The row and the steps belong to the tile.
    unsafe fn lhs(&self, row: usize, first: usize, to: &mut [u8]);

    /// Copies the bytes of one step of the rhs, one for each column.
    ///
    /// # Safety
    ///
    /// The step and the columns belong to the tile.
    unsafe fn rhs(&self, step: usize, to: &mut [u8]);

    /// Gives the zero points of all rows and columns.
    ///
    /// # Safety
    ///
    /// There are as many as the tile has.
    unsafe fn zeros(&self, zeros: Zeros<'_>);
}

/// The size of a tile.
pub(crate) struct Tile {
    pub rows: usize,
    pub columns: usize,
    pub k: usize,
}

impl Tile {
    /// Computes the tile and hands over every row of the result, which may be changed.
    ///
    /// # Safety
    ///
    /// The operands are those of the tile, and nobody writes them.
    pub unsafe fn compute(
        &self,
        operands: &impl TileOperands,
        mut store: impl FnMut(usize, &mut [i32]),
    ) -> Result {
        let &Tile { rows, columns, k } = self;
        let stride = columns.next_multiple_of(WIDTH);
        let part = k.min(TILE_K).next_multiple_of(STEPS);
        // One more row, of ones, gives the sums of columns.
        let sizes = [(rows + 1) * stride, rows, columns, rows];
        with_scratch(sizes, |[sums, lhs_zeros, rhs_zeros, row_sums]: [&mut [i32]; 4]| {
            sums.fill(0);
            row_sums.fill(0);
            // SAFETY: passed on.
            unsafe {
                let (lhs, rhs) = (&mut *lhs_zeros, &mut *rhs_zeros);
                operands.zeros(Zeros { lhs, rhs });
            }
            let [lhs_signed, rhs_signed] = operands.signed();
            let shifts = [if lhs_signed { 128 } else { 0 }, if rhs_signed { 0 } else { -128 }];
            lhs_zeros.iter_mut().for_each(|zero| *zero += shifts[0]);
            rhs_zeros.iter_mut().for_each(|zero| *zero += shifts[1]);
            let has_lhs = lhs_zeros.iter().any(|&zero| zero != 0);
            let has_rhs = rhs_zeros.iter().any(|&zero| zero != 0);
            let all_rows = rows + usize::from(has_lhs);

            let sizes = [(rows + 1) * part, stride * part, stride * STEPS];
            with_scratch(sizes, |[lhs, rhs, seen]: [&mut [u8]; 3]| {
                for first in (0..k).step_by(TILE_K) {
                    let count = TILE_K.min(k - first);
                    let padded = count.next_multiple_of(STEPS);
                    for row in 0..rows {
                        let to = &mut lhs[row * padded..][..padded];
                        // SAFETY: passed on.
                        unsafe { operands.lhs(row, first, &mut to[..count]) };
                        pack_lhs(&mut to[..count], lhs_signed);
                        to[count..].fill(0);
                        if has_rhs {
                            vectorized(AddBytes { bytes: to, sum: &mut row_sums[row] });
                        }
                    }
                    lhs[rows * padded..][..padded].fill(1);
                    // SAFETY: passed on.
                    unsafe { pack_rhs(operands, columns, first..first + count, seen, rhs) };
                    let micro_tiles = MicroTiles {
                        rows: all_rows,
                        columns,
                        groups: padded / STEPS,
                        lhs: lhs.as_ptr(),
                        rhs: rhs.as_ptr().cast(),
                        sums: sums.as_mut_ptr(),
                        stride,
                    };
                    // SAFETY: the areas have the sizes that the micro-tiles say.
                    unsafe { micro_tiles.add() };
                }
            })?;

            let (sums, column_sums) = sums.split_at_mut(rows * stride);
            for (row, sums) in sums.chunks_exact_mut(stride).enumerate() {
                let sums = &mut sums[..columns];
                if has_lhs || has_rhs {
                    let (x, total) = (lhs_zeros[row], row_sums[row]);
                    let whole = (k as i32).wrapping_mul(x).wrapping_sub(total);
                    vectorized(TakeOff { sums, rhs_zeros, column_sums, x, whole });
                }
                store(row, sums);
            }
            Ok(())
        })?
    }
}

/// Adds bytes to a sum.
struct AddBytes<'a> {
    bytes: &'a [u8],
    sum: &'a mut i32,
}

impl SimdFn for AddBytes<'_> {
    #[inline(always)]
    fn run(self) {
        let sum: i32 = self.bytes.iter().map(|&byte| i32::from(byte)).sum();
        *self.sum = self.sum.wrapping_add(sum);
    }
}

/// Takes the zero points off a row of sums.
struct TakeOff<'a> {
    sums: &'a mut [i32],
    rhs_zeros: &'a [i32],
    column_sums: &'a [i32],
    /// The zero point of the row, and what that of a column is multiplied by.
    x: i32,
    whole: i32,
}

impl SimdFn for TakeOff<'_> {
    #[inline(always)]
    fn run(self) {
        let TakeOff { sums, rhs_zeros, column_sums, x, whole } = self;
        for ((sum, &y), &column) in sums.iter_mut().zip(rhs_zeros).zip(column_sums) {
            let correction = y.wrapping_mul(whole).wrapping_sub(x.wrapping_mul(column));
            *sum = sum.wrapping_add(correction);
        }
    }
}

fn pack_lhs(bytes: &mut [u8], signed: bool) {
    if signed {
        bytes.iter_mut().for_each(|byte| *byte ^= FLIP);
    }
}

/// Packs steps of the rhs as panels: groups of steps, in each a few steps of every column.
unsafe fn pack_rhs(
    operands: &impl TileOperands,
    columns: usize,
    range: std::ops::Range<usize>,
    seen: &mut [u8],
    to: &mut [u8],
) {
    let flip = if operands.signed()[1] { 0 } else { FLIP };
    let stride = seen.len() / STEPS;
    let padded = range.len().next_multiple_of(STEPS);
    for (group, first) in range.clone().step_by(STEPS).enumerate() {
        for (step, seen) in seen.chunks_exact_mut(stride).enumerate() {
            // Columns and steps beyond the last count as zero after the flip.
            seen[columns..].fill(flip);
            if first + step < range.end {
                // SAFETY: passed on.
                unsafe { operands.rhs(first + step, &mut seen[..columns]) };
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
