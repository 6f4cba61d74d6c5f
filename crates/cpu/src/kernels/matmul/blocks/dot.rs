//! The innermost loops.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256, __m512};

use crate::kernels::matmul::vector::{Array, Vector};
use crate::kernels::shared::simd::Machine;

/// Partial sums of every element; registers may have fewer numbers.
pub(super) const LANES: usize = 16;

/// `sums += left × rightᵀ`, with both factors along the depth.
#[derive(Clone, Copy)]
pub(super) struct Tiles {
    pub rows: usize,
    pub columns: usize,
    /// A multiple of [`LANES`].
    pub depth: usize,
    /// Rows of `depth` numbers.
    pub left: *const f32,
    /// Columns of `depth` numbers.
    pub right: *const f32,
    /// Rows of `columns` times [`LANES`] partial sums.
    pub sums: *mut f32,
}

impl Tiles {
    /// # Safety
    ///
    /// The pointers are valid for the sizes given at each, nobody else touches the sums, and the machine is at
    /// hand.
    pub unsafe fn add(&self, machine: Machine) {
        // SAFETY: passed on.
        unsafe {
            match machine {
                Machine::Portable => self.each::<Array<f32, LANES>, 2, 2>(),
                #[cfg(target_arch = "x86_64")]
                Machine::Avx2 => self.with_avx2(),
                #[cfg(target_arch = "x86_64")]
                Machine::Avx512 => self.with_avx512(),
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn with_avx2(&self) {
        // SAFETY: passed on. Half of the partial sums are not used.
        unsafe { self.each::<__m256, 4, 2>() }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn with_avx512(&self) {
        // SAFETY: passed on.
        unsafe { self.each::<__m512, 4, 4>() }
    }

    #[inline(always)]
    unsafe fn each<V: Vector<Number = f32>, const ROWS: usize, const COLUMNS: usize>(&self) {
        let (rows, columns) = (self.rows - self.rows % ROWS, self.columns - self.columns % COLUMNS);
        // SAFETY: no more rows and columns are touched than there are.
        unsafe {
            // Columns outside: there are fewer rows, and their numbers stay in the cache.
            for column in (0..columns).step_by(COLUMNS) {
                for row in (0..rows).step_by(ROWS) {
                    self.tile::<V, ROWS, COLUMNS>(row, column);
                }
                for row in rows..self.rows {
                    self.tile::<V, 1, COLUMNS>(row, column);
                }
            }
            for column in columns..self.columns {
                for row in 0..self.rows {
                    self.tile::<V, 1, 1>(row, column);
                }
            }
        }
    }

    /// Every sum is added to in the same way, whatever tile it belongs to.
    #[inline(always)]
    unsafe fn tile<V: Vector<Number = f32>, const ROWS: usize, const COLUMNS: usize>(
        &self,
        row: usize,
        column: usize,
    ) {
        // SAFETY: the rows and columns belong to the product.
        unsafe {
            let place =
                |i: usize, j: usize| self.sums.add(((row + i) * self.columns + column + j) * LANES);
            let mut sums: [[V; COLUMNS]; ROWS] =
                std::array::from_fn(|i| std::array::from_fn(|j| V::load(place(i, j))));
            let left = self.left.add(row * self.depth);
            let right = self.right.add(column * self.depth);
            for k in (0..self.depth).step_by(V::LANES) {
                let values: [V; COLUMNS] =
                    std::array::from_fn(|j| V::load(right.add(j * self.depth + k)));
                for (i, sums) in sums.iter_mut().enumerate() {
                    let factor = V::load(left.add(i * self.depth + k));
                    for (sum, value) in sums.iter_mut().zip(values) {
                        *sum = sum.add_product(factor, value);
                    }
                }
            }
            for (i, sums) in sums.into_iter().enumerate() {
                for (j, sum) in sums.into_iter().enumerate() {
                    sum.store(place(i, j));
                }
            }
        }
    }
}

/// The sum of the partial sums.
#[inline(always)]
pub(super) fn total(partial: &[f32]) -> f32 {
    let mut all: [f32; LANES] = partial.try_into().expect("all partial sums");
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            all[lane] += all[lane + half];
        }
        half /= 2;
    }
    all[0]
}
