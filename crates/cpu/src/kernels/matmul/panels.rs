//! Products of a matrix with panels, for kernels that gather their operands themselves.
//!
//! As in `matmul`, every sum is made in rising order of k in one accumulator, whatever the
//! number of rows and columns, so a result has the same bits in a product of any size.

use bytemuck::Pod;

use crate::kernels::conv::places::PlaceElement;
use crate::kernels::matmul::micro_kernel::{GemmElement, MicroTile, panels_together};
use crate::kernels::matmul::ranges::even_ranges;
use crate::kernels::shared::number::Float;
use crate::kernels::shared::simd::Isa;

/// `sums = lhs × rhs`, or `sums += lhs × rhs`. The rhs lies in panels of [`width`](PanelElement::width) columns.
/// The last panel is filled up, and rows of sums have room for whole panels.
#[derive(Clone, Copy)]
pub(crate) struct Product<F> {
    pub rows: usize,
    pub columns: usize,
    pub k: usize,
    /// Element `(row, step of k)` is at `row · lhs_row_stride + step · lhs_k_stride`.
    pub lhs: *const F,
    pub lhs_row_stride: usize,
    pub lhs_k_stride: usize,
    /// The columns of a step of k of a panel begin at `panel · rhs_panel_stride + step · rhs_k_stride`.
    pub rhs: *const F,
    pub rhs_panel_stride: usize,
    pub rhs_k_stride: usize,
    pub sums: *mut F,
    /// Distance between rows of sums.
    pub stride: usize,
    /// Whether the products begin the sums, which then need not be initialized.
    pub begin: bool,
}

/// A type that products are computed in.
pub(crate) trait PanelElement:
    GemmElement<Compute = Self> + PlaceElement + Float + Pod
{
    /// Columns of a panel.
    fn width(isa: Isa) -> usize {
        Self::shape(isa).columns
    }
}

impl PanelElement for f32 {}
impl PanelElement for f64 {}

impl<F: PanelElement> Product<F> {
    /// Computes the product.
    ///
    /// # Safety
    ///
    /// The pointers are valid for what the product says of them, nobody else touches the sums, and the
    /// CPU has this ISA.
    pub unsafe fn run(self, isa: Isa) {
        let shape = F::shape(isa);
        let few = self.rows <= shape.rows;
        let together = if few { panels_together(self.rows, isa) } else { 1 };
        let (mut panel, count) = (0, self.columns.div_ceil(shape.columns));
        while panel < count {
            let panels = if count - panel >= together { together } else { 1 };
            // A panel stays in the first-level cache while all rows pass.
            for rows in even_ranges(self.rows, shape.rows) {
                // SAFETY: passed on; rows and panels are those of the product.
                unsafe {
                    let micro_tile = MicroTile {
                        rows: rows.len(),
                        panels,
                        k: self.k,
                        lhs: self.lhs.add(rows.start * self.lhs_row_stride),
                        lhs_row_stride: self.lhs_row_stride,
                        lhs_k_stride: self.lhs_k_stride,
                        rhs: self.rhs.add(panel * self.rhs_panel_stride),
                        rhs_k_stride: self.rhs_k_stride,
                        rhs_panel_stride: self.rhs_panel_stride,
                        sums: self.sums.add(rows.start * self.stride + panel * shape.columns),
                        stride: self.stride,
                        begin: self.begin,
                    };
                    <F as GemmElement>::add(micro_tile, isa);
                }
            }
            panel += panels;
        }
    }
}

/// Whether every CPU of the architecture fuses; without an instruction for it, it is very slow.
const PORTABLE_FUSES: bool = cfg!(target_arch = "aarch64");

#[inline(always)]
fn multiply_add<F: Float, const FUSED: bool>(lhs: F, rhs: F, accumulator: F) -> F {
    if FUSED { lhs.mul_add(rhs, accumulator) } else { accumulator + lhs * rhs }
}

/// Adds `scale · values` to a row of sums, with the rounding of a product.
#[inline(always)]
pub(crate) fn add_row<F: Float>(isa: Isa, scale: F, values: &[F], sums: &mut [F]) {
    match isa {
        Isa::Portable => add_scaled::<F, PORTABLE_FUSES>(scale, values, sums),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the CPU has the features of the ISA.
        Isa::Avx2 | Isa::Avx512 => unsafe { add_row_with_avx2(scale, values, sums) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn add_row_with_avx2<F: Float>(scale: F, values: &[F], sums: &mut [F]) {
    add_scaled::<F, true>(scale, values, sums);
}

#[inline(always)]
fn add_scaled<F: Float, const FUSED: bool>(scale: F, values: &[F], sums: &mut [F]) {
    for (sum, &value) in sums.iter_mut().zip(values) {
        *sum = multiply_add::<F, FUSED>(scale, value, *sum);
    }
}

#[cfg(test)]
mod tests;
