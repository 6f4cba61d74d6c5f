//! Products of a matrix with panels, for kernels that gather their factors themselves.
//!
//! As in `matmul`, every sum is made in rising order of the depth in one accumulator, whatever the
//! number of rows and columns, so a result has the same bits in a product of any size.

use crate::kernels::matmul::block::parts;
use crate::kernels::matmul::tile::{Multiplied, Tile, panels_together};
use crate::kernels::shared::number::Float;
use crate::kernels::shared::scratch::Plain;
use crate::kernels::shared::simd::Machine;

/// `sums = left × right`, or added to what they are. The right factor lies in panels of [`width`](Panelled::width) columns, the
/// last one filled up; rows of sums have room for whole panels.
#[derive(Clone, Copy)]
pub(crate) struct Product<F> {
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
    /// Whether the products begin the sums, which then need not be initialised.
    pub begin: bool,
}

/// A type that products are computed in.
pub(crate) trait Panelled: Multiplied<Compute = Self> + Float + Plain {
    /// Columns of a panel.
    fn width(machine: Machine) -> usize {
        Self::shape(machine).columns
    }
}

impl Panelled for f32 {}
impl Panelled for f64 {}

impl<F: Panelled> Product<F> {
    /// Computes the product.
    ///
    /// # Safety
    ///
    /// The pointers are valid for what the product says of them, nobody else touches the sums, and the
    /// machine at hand is this one or a better one.
    pub unsafe fn run(self, machine: Machine) {
        let shape = F::shape(machine);
        let few = self.rows <= shape.rows;
        let together = if few { panels_together(self.rows, machine) } else { 1 };
        let (mut panel, count) = (0, self.columns.div_ceil(shape.columns));
        while panel < count {
            let panels = if count - panel >= together { together } else { 1 };
            // A panel stays in the first-level cache while all rows pass.
            for rows in parts(self.rows, shape.rows) {
                // SAFETY: passed on; rows and panels are those of the product.
                unsafe {
                    let tile = Tile {
                        rows: rows.len(),
                        panels,
                        depth: self.depth,
                        left: self.left.add(rows.start * self.left_row),
                        left_row: self.left_row,
                        left_step: self.left_step,
                        right: self.right.add(panel * self.right_panel),
                        group_stride: self.right_step,
                        panel_stride: self.right_panel,
                        sums: self.sums.add(rows.start * self.stride + panel * shape.columns),
                        stride: self.stride,
                        begin: self.begin,
                    };
                    <F as Multiplied>::add(tile, machine);
                }
            }
            panel += panels;
        }
    }
}

/// Whether every machine of the architecture fuses; without an instruction for it, it is very slow.
const PORTABLE_FUSES: bool = cfg!(target_arch = "aarch64");

#[inline(always)]
fn multiply_add<F: Float, const FUSED: bool>(left: F, right: F, accumulator: F) -> F {
    if FUSED { left.mul_add(right, accumulator) } else { accumulator + left * right }
}

/// Adds `factor · values` to a row of sums, with the rounding of a product.
#[inline(always)]
pub(crate) fn add_row<F: Float>(machine: Machine, factor: F, values: &[F], sums: &mut [F]) {
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
mod tests;
