//! Convolution as a product of the weights with what the taps see, gathered tile by tile (im2col).

use super::epilogue::ConvEpilogue;
use super::gather::{Part, Source, Taps};
use super::weight::Weight;
use super::window::{Segment, Window};
use crate::kernels::matmul::panels::{PanelElement, Product};
use crate::kernels::shared::fault::{Result, try_parallel_for};
use crate::kernels::shared::number::{Float, StoredFloat};
use crate::kernels::shared::parallel::Parallel;
use crate::kernels::shared::scratch::with_scratch;
use crate::kernels::shared::simd::Isa;

/// Output channels and columns of a tile of the result.
const TILE_ROWS: usize = 256;
pub(super) const TILE_COLUMNS: usize = 128;

/// Tiles that are too few for several threads.
pub(super) const FEW_TILES: usize = 4;

/// Products that are gathered and added at a time.
const TILE_K: usize = 1024;

/// Multiplications that take about as long as one element of simple work.
pub(super) const PRODUCTS_PER_ELEMENT: usize = 16;

/// One convolution over one window, whose taps see what `S` says.
pub(super) struct Conv<'a, T, S = Source<T>> {
    pub window: &'a Window,
    pub batch: usize,
    pub groups: usize,
    /// Output and input channels of a group.
    pub rows: usize,
    pub channels: usize,
    pub source: S,
    pub weight: Weight<T>,
    pub epilogue: ConvEpilogue<'a, T>,
}

impl<T: StoredFloat<Compute: PanelElement>, S: Taps<T>> Conv<'_, T, S> {
    /// # Safety
    ///
    /// As for [`execute`](crate::kernels::execute), the parts belong together, and the CPU has
    /// this ISA.
    pub unsafe fn run(&self, isa: Isa, parallel: &dyn Parallel) -> Result {
        let columns = self.batch * self.window.outputs();
        let k = self.channels.saturating_mul(self.window.taps.len());
        let across = columns.div_ceil(TILE_COLUMNS);
        // Few tiles are halved, so that several threads have about as much to do each.
        let few = self.groups * self.rows.div_ceil(TILE_ROWS) * across < FEW_TILES;
        let most = if few { TILE_ROWS / 2 } else { TILE_ROWS };
        let down = self.rows.div_ceil(most);
        let area = self.rows.min(most) * columns.min(TILE_COLUMNS);
        let work = area.saturating_mul(k) / PRODUCTS_PER_ELEMENT + area;
        try_parallel_for(parallel, self.groups * down * across, work, |range| {
            let mut segments = Vec::new();
            for block in range {
                let (group, block) = (block / (down * across), block % (down * across));
                let (row, column) = (block / across * most, block % across * TILE_COLUMNS);
                let rows = most.min(self.rows - row);
                let count = TILE_COLUMNS.min(columns - column);
                self.window.segments(column, count, &mut segments);
                // SAFETY: blocks are disjoint parts of the output; the rest is passed on.
                unsafe { self.block(isa, group, (row, rows), &segments, count)? };
            }
            Ok(())
        })
    }

    unsafe fn block(
        &self,
        isa: Isa,
        group: usize,
        (row, rows): (usize, usize),
        segments: &[Segment],
        columns: usize,
    ) -> Result {
        let width = T::Compute::width(isa);
        let stride = columns.next_multiple_of(width);
        let k = self.channels * self.window.taps.len();
        let part = k.min(TILE_K);
        let packed = if self.weight.is_direct() { 0 } else { rows * part };
        let sizes = [rows * stride, stride * part, packed, stride];
        with_scratch(sizes, |[sums, rhs, lhs, seen]: [&mut [T::Compute]; 4]| {
            if k == 0 {
                sums.fill(T::Compute::ZERO);
            }
            seen.fill(T::Compute::ZERO);
            for first in (0..k).step_by(TILE_K) {
                let part = TILE_K.min(k - first);
                let range = first..first + part;
                let (window, channels) = (self.window, group * self.channels);
                let seen_by = Part { window, segments, width, channels, steps: range.clone() };
                // SAFETY: passed on; the areas have the sizes that the product says.
                unsafe {
                    self.source.gather(&seen_by, rhs, seen);
                    let (lhs, lhs_row_stride) = self.weight.rows(group, (row, rows), range, lhs);
                    let product = Product {
                        rows,
                        columns,
                        k: part,
                        lhs,
                        lhs_row_stride,
                        lhs_k_stride: 1,
                        rhs: rhs.as_ptr(),
                        rhs_panel_stride: part * width,
                        rhs_k_stride: width,
                        sums: sums.as_mut_ptr(),
                        stride,
                        begin: first == 0,
                    };
                    product.run(isa);
                }
            }
            for (index, sums) in sums.chunks_exact_mut(stride).enumerate() {
                let channel = group * self.rows + row + index;
                // SAFETY: passed on.
                unsafe { self.epilogue.store(channel, segments, &mut sums[..columns]) };
            }
        })
    }
}
