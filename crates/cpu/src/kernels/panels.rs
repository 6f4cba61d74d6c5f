//! Products of a matrix with panels, for kernels that gather their factors themselves.
//!
//! As in `matmul`, every sum is made in rising order of the depth in one accumulator, whatever the
//! number of rows and columns, so a result has the same bits in a product of any size.

use super::number::Float;
use super::simd::Machine;
use super::workspace::Plain;

/// `sums += left × right`. The right factor lies in panels of [`width`](Panelled::width) columns, the
/// last one filled up; rows of sums have room for whole panels.
#[derive(Clone, Copy)]
pub(super) struct Product<F> {
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
    /// Element `(row, step)` is at `row · left_row + step · left_step`.
    pub left: *const F,
    pub left_row: usize,
    pub left_step: usize,
    /// The columns of step `step` of panel `panel` begin at `panel · right_panel + step · right_step`.
    pub right: *const F,
    pub right_panel: usize,
    pub right_step: usize,
    pub sums: *mut F,
    /// Distance between rows of sums.
    pub stride: usize,
}

/// A type that products are computed in.
pub(super) trait Panelled: Float + Plain {
    /// Columns of a panel.
    fn width(machine: Machine) -> usize;

    /// Adds a product to its sums.
    ///
    /// # Safety
    ///
    /// The pointers are valid for what the product says of them, nobody else touches the sums, and the
    /// machine at hand is this one or a better one.
    unsafe fn add(product: Product<Self>, machine: Machine);
}

macro_rules! panelled {
    ($type:ident: portable $p:literal, avx2 $a:literal, avx512 $b:literal) => {
        impl Panelled for $type {
            fn width(machine: Machine) -> usize {
                match machine {
                    Machine::Portable => $p,
                    #[cfg(target_arch = "x86_64")]
                    Machine::Avx2 => $a,
                    #[cfg(target_arch = "x86_64")]
                    Machine::Avx512 => $b,
                }
            }

            unsafe fn add(product: Product<Self>, machine: Machine) {
                // SAFETY: passed on; the machine has the features of its name.
                unsafe {
                    match machine {
                        Machine::Portable => product.add_all::<4, $p, PORTABLE_FUSES>(),
                        #[cfg(target_arch = "x86_64")]
                        Machine::Avx2 => with_avx2::<$type, $a>(product),
                        #[cfg(target_arch = "x86_64")]
                        Machine::Avx512 => with_avx512::<$type, $b>(product),
                    }
                }
            }
        }
    };
}

panelled!(f32: portable 8, avx2 16, avx512 32);
panelled!(f64: portable 4, avx2 8, avx512 16);

/// Whether every machine of the architecture fuses; without an instruction for it, it is very slow.
const PORTABLE_FUSES: bool = cfg!(target_arch = "aarch64");

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn with_avx2<F: Float, const WIDTH: usize>(product: Product<F>) {
    // SAFETY: passed on.
    unsafe { product.add_all::<6, WIDTH, true>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f")]
unsafe fn with_avx512<F: Float, const WIDTH: usize>(product: Product<F>) {
    // SAFETY: passed on.
    unsafe { product.add_all::<8, WIDTH, true>() }
}

impl<F: Float> Product<F> {
    #[inline(always)]
    unsafe fn add_all<const ROWS: usize, const WIDTH: usize, const FUSED: bool>(self) {
        for panel in 0..self.columns.div_ceil(WIDTH) {
            let mut row = 0;
            while row < self.rows {
                // A panel stays in the first-level cache while all rows pass.
                // SAFETY: the panel is one of the right factor.
                let right = unsafe { self.right.add(panel * self.right_panel) };
                let rest = self.rows - row;
                // SAFETY: no more rows are touched than there are.
                row += unsafe {
                    if rest >= ROWS {
                        self.tile::<ROWS, WIDTH, FUSED>(row, panel, right)
                    } else if rest >= 4 {
                        self.tile::<4, WIDTH, FUSED>(row, panel, right)
                    } else if rest >= 2 {
                        self.tile::<2, WIDTH, FUSED>(row, panel, right)
                    } else {
                        self.tile::<1, WIDTH, FUSED>(row, panel, right)
                    }
                };
            }
        }
    }

    /// Computes some rows of a panel, and says how many.
    #[inline(always)]
    unsafe fn tile<const SOME: usize, const WIDTH: usize, const FUSED: bool>(
        &self,
        row: usize,
        panel: usize,
        mut right: *const F,
    ) -> usize {
        // SAFETY: the rows belong to the sums.
        let to = unsafe { self.sums.add(row * self.stride + panel * WIDTH) };
        // SAFETY: the rows belong to the left factor.
        let mut left = unsafe { self.left.add(row * self.left_row) };
        // The sums stay in registers from the first product to the last.
        let mut sums = [[F::ZERO; WIDTH]; SOME];
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: rows of sums have room for whole panels.
            *sums = unsafe { to.add(row * self.stride).cast::<[F; WIDTH]>().read() };
        }
        for _ in 0..self.depth {
            // SAFETY: the step is one of `depth`.
            let values = unsafe { &*right.cast::<[F; WIDTH]>() };
            for (row, sums) in sums.iter_mut().enumerate() {
                // SAFETY: the row and the step belong to the left factor.
                let factor = unsafe { *left.add(row * self.left_row) };
                for (sum, &value) in sums.iter_mut().zip(values) {
                    *sum = multiply_add::<F, FUSED>(factor, value, *sum);
                }
            }
            left = left.wrapping_add(self.left_step);
            right = right.wrapping_add(self.right_step);
        }
        for (row, sums) in sums.iter().enumerate() {
            // SAFETY: as above.
            unsafe { to.add(row * self.stride).cast::<[F; WIDTH]>().write(*sums) };
        }
        SOME
    }
}

#[inline(always)]
fn multiply_add<F: Float, const FUSED: bool>(left: F, right: F, accumulator: F) -> F {
    if FUSED { left.mul_add(right, accumulator) } else { accumulator + left * right }
}

/// Adds `factor · values` to a row of sums, with the rounding of a product.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_any_size_follow_the_definition_on_every_machine() {
        for machine in Machine::available() {
            let width = f32::width(machine);
            for rows in [1, 2, 3, 5, 7, 8, 13, 16] {
                for columns in [1, width, width + 3] {
                    check(machine, rows, columns, 9);
                }
            }
        }
    }

    fn check(machine: Machine, rows: usize, columns: usize, depth: usize) {
        let width = f32::width(machine);
        let panels = columns.div_ceil(width);
        let left: Vec<f32> = (0..rows * depth).map(|i| (i % 7) as f32 - 3.0).collect();
        let right: Vec<f32> = (0..panels * depth * width).map(|i| (i % 5) as f32 - 2.0).collect();
        let mut sums = vec![1.0f32; rows * panels * width];
        let product = Product {
            rows,
            columns,
            depth,
            left: left.as_ptr(),
            left_row: depth,
            left_step: 1,
            right: right.as_ptr(),
            right_panel: depth * width,
            right_step: width,
            sums: sums.as_mut_ptr(),
            stride: panels * width,
        };
        // SAFETY: the vectors have the sizes of the product, and the machine is available.
        unsafe { f32::add(product, machine) };
        for row in 0..rows {
            for column in 0..columns {
                let (panel, place) = (column / width, column % width);
                let sum: f32 = (0..depth)
                    .map(|k| left[row * depth + k] * right[(panel * depth + k) * width + place])
                    .sum();
                assert_eq!(sums[row * panels * width + column], 1.0 + sum);
            }
        }
    }
}
