//! The innermost loops.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256, __m512};

use crate::kernels::matmul::vector::{Array, Vector};
use crate::kernels::shared::simd::Isa;

/// Partial sums of every element; registers may have fewer numbers.
pub(super) const LANES: usize = 16;

/// `sums += lhs × rhsᵀ`, with both operands along k.
#[derive(Clone, Copy)]
pub(super) struct MicroTiles {
    pub rows: usize,
    pub columns: usize,
    /// A multiple of [`LANES`].
    pub k: usize,
    /// Rows of `k` numbers.
    pub lhs: *const f32,
    /// Columns of `k` numbers.
    pub rhs: *const f32,
    /// Rows of `columns` times [`LANES`] partial sums.
    pub sums: *mut f32,
}

impl MicroTiles {
    /// # Safety
    ///
    /// The pointers are valid for the sizes given at each, nobody else touches the sums, and the CPU has
    /// the ISA.
    pub unsafe fn add(&self, isa: Isa) {
        // SAFETY: passed on.
        unsafe {
            match isa {
                Isa::Portable => self.each::<Array<f32, LANES>, 2, 2>(),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => self.with_avx2(),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => self.with_avx512(),
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
            let lhs = self.lhs.add(row * self.k);
            let rhs = self.rhs.add(column * self.k);
            for at in (0..self.k).step_by(V::LANES) {
                let values: [V; COLUMNS] =
                    std::array::from_fn(|j| V::load(rhs.add(j * self.k + at)));
                for (i, sums) in sums.iter_mut().enumerate() {
                    let row = V::load(lhs.add(i * self.k + at));
                    for (sum, value) in sums.iter_mut().zip(values) {
                        *sum = sum.add_product(row, value);
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
