//! The innermost loops, compiled for each machine.

use super::super::number::Float;
use super::super::simd::Machine;

/// `accumulator + left · right`, in one rounding where the machine has an instruction for it.
///
/// Every loop of a product uses this one, so all paths give the same bits.
#[inline(always)]
fn multiply_add<F: Float, const FUSED: bool>(left: F, right: F, accumulator: F) -> F {
    if FUSED { left.mul_add(right, accumulator) } else { accumulator + left * right }
}

/// One tile of the result and the panels of the factors that it is made of.
#[derive(Clone, Copy)]
pub(super) struct Tile<F> {
    /// Rows of the result that count; those beyond may be computed but need not.
    pub rows: usize,
    /// Products to add to each element.
    pub depth: usize,
    /// `depth` groups of `ROWS` numbers.
    pub left: *const F,
    /// `depth` groups of `COLUMNS` numbers.
    pub right: *const F,
    /// `ROWS` rows of `COLUMNS` sums.
    pub sums: *mut F,
    /// Distance between rows of sums.
    pub stride: usize,
}

impl<F: Float> Tile<F> {
    /// Adds the products to the sums.
    ///
    /// # Safety
    ///
    /// The pointers are valid for the sizes given at each, and `machine` is the one at hand.
    #[inline(always)]
    pub unsafe fn add<const ROWS: usize, const COLUMNS: usize>(self, machine: Machine) {
        // SAFETY: passed on; the machine has the features of its name.
        unsafe {
            match machine {
                Machine::Portable => self.add_rows::<ROWS, COLUMNS, PORTABLE_FUSES>(),
                #[cfg(target_arch = "x86_64")]
                Machine::Avx2 => add_with_avx2::<F, ROWS, COLUMNS>(self),
                #[cfg(target_arch = "x86_64")]
                Machine::Avx512 => add_with_avx512::<F, ROWS, COLUMNS>(self),
            }
        }
    }

    /// Skips most of the rows that do not count: a single row costs an eighth of a full tile.
    #[inline(always)]
    unsafe fn add_rows<const ROWS: usize, const COLUMNS: usize, const FUSED: bool>(self) {
        // SAFETY: passed on; no more rows are touched than there are.
        unsafe {
            match self.rows {
                1 => self.add_some::<1, ROWS, COLUMNS, FUSED>(),
                2 => self.add_some::<2, ROWS, COLUMNS, FUSED>(),
                3 | 4 => self.add_some::<4, ROWS, COLUMNS, FUSED>(),
                _ => self.add_some::<ROWS, ROWS, COLUMNS, FUSED>(),
            }
        }
    }

    #[inline(always)]
    unsafe fn add_some<
        const SOME: usize,
        const ROWS: usize,
        const COLUMNS: usize,
        const FUSED: bool,
    >(
        self,
    ) {
        // The sums stay in registers from the first product to the last.
        let mut sums = [[F::ZERO; COLUMNS]; SOME];
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the row is one of the tile.
            *sums = unsafe { self.sums.add(row * self.stride).cast::<[F; COLUMNS]>().read() };
        }
        let (mut left, mut right) = (self.left, self.right);
        for _ in 0..self.depth {
            // SAFETY: the group is one of `depth`.
            let values = unsafe { &*right.cast::<[F; COLUMNS]>() };
            for (row, sums) in sums.iter_mut().enumerate() {
                // SAFETY: the group has `ROWS` numbers, which are not fewer than `SOME`.
                let factor = unsafe { *left.add(row) };
                for (sum, &value) in sums.iter_mut().zip(values) {
                    *sum = multiply_add::<F, FUSED>(factor, value, *sum);
                }
            }
            // SAFETY: at most one past the end.
            (left, right) = unsafe { (left.add(ROWS), right.add(COLUMNS)) };
        }
        for (row, sums) in sums.iter().enumerate() {
            // SAFETY: the row is one of the tile.
            unsafe { self.sums.add(row * self.stride).cast::<[F; COLUMNS]>().write(*sums) };
        }
    }
}

/// Whether every machine of the architecture fuses; without an instruction for it, it is very slow.
const PORTABLE_FUSES: bool = cfg!(target_arch = "aarch64");

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn add_with_avx2<F: Float, const ROWS: usize, const COLUMNS: usize>(tile: Tile<F>) {
    // SAFETY: passed on.
    unsafe { tile.add_rows::<ROWS, COLUMNS, true>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f")]
unsafe fn add_with_avx512<F: Float, const ROWS: usize, const COLUMNS: usize>(tile: Tile<F>) {
    // SAFETY: passed on.
    unsafe { tile.add_rows::<ROWS, COLUMNS, true>() }
}

/// Adds `factor · values` to a row of sums; for products of so few rows that packing the right factor
/// would cost more than it saves.
#[inline(always)]
pub(super) fn add_row<F: Float>(machine: Machine, factor: F, values: &[F], sums: &mut [F]) {
    match machine {
        Machine::Portable => add_scaled::<F, PORTABLE_FUSES>(factor, values, sums),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the machine has the features of its name.
        Machine::Avx2 | Machine::Avx512 => unsafe { add_row_with_avx2(factor, values, sums) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn add_row_with_avx2<F: Float>(factor: F, values: &[F], sums: &mut [F]) {
    add_scaled::<F, true>(factor, values, sums);
}

#[inline(always)]
fn add_scaled<F: Float, const FUSED: bool>(factor: F, values: &[F], sums: &mut [F]) {
    for (sum, &value) in sums.iter_mut().zip(values) {
        *sum = multiply_add::<F, FUSED>(factor, value, *sum);
    }
}
