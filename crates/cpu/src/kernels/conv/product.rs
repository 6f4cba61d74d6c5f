//! Convolution as a product of the weights with what the taps see, gathered block by block.

use super::finish::Finish;
use super::gather::Source;
use super::weight::Weight;
use super::window::{Segment, Window};
use crate::kernels::matmul::panels::{Panelled, Product};
use crate::kernels::shared::fault::{Result, try_share};
use crate::kernels::shared::number::{Float, StoredFloat};
use crate::kernels::shared::parallel::Parallel;
use crate::kernels::shared::scratch::with_areas;
use crate::kernels::shared::simd::Machine;

/// Output channels and columns of a block of the result.
const BLOCK_ROWS: usize = 256;
const BLOCK_COLUMNS: usize = 128;

/// Blocks that are too few to share well.
const FEW_BLOCKS: usize = 4;

/// Products that are gathered and added at a time.
const BLOCK_DEPTH: usize = 1024;

/// Multiplications that take about as long as one element of simple work.
const PRODUCTS_PER_ELEMENT: usize = 16;

/// One convolution over one window.
pub(super) struct Conv<'a, T> {
    pub window: &'a Window,
    pub batch: usize,
    pub groups: usize,
    /// Output and input channels of a group.
    pub rows: usize,
    pub channels: usize,
    pub source: Source<T>,
    pub weight: Weight<T>,
    pub finish: Finish<'a, T>,
}

impl<T: StoredFloat<Compute: Panelled>> Conv<'_, T> {
    /// # Safety
    ///
    /// As for [`execute`](crate::kernels::execute), the parts belong together, and the machine at hand is
    /// this one or a better one.
    pub unsafe fn run(&self, machine: Machine, parallel: &dyn Parallel) -> Result {
        let columns = self.batch * self.window.outputs();
        let depth = self.channels.saturating_mul(self.window.taps.len());
        let across = columns.div_ceil(BLOCK_COLUMNS);
        // Few blocks are halved, so that several threads have about as much to do each.
        let few = self.groups * self.rows.div_ceil(BLOCK_ROWS) * across < FEW_BLOCKS;
        let most = if few { BLOCK_ROWS / 2 } else { BLOCK_ROWS };
        let down = self.rows.div_ceil(most);
        let area = self.rows.min(most) * columns.min(BLOCK_COLUMNS);
        let work = area.saturating_mul(depth) / PRODUCTS_PER_ELEMENT + area;
        try_share(parallel, self.groups * down * across, work, |range| {
            let mut segments = Vec::new();
            for block in range {
                let (group, block) = (block / (down * across), block % (down * across));
                let (row, column) = (block / across * most, block % across * BLOCK_COLUMNS);
                let rows = most.min(self.rows - row);
                let count = BLOCK_COLUMNS.min(columns - column);
                self.window.segments(column, count, &mut segments);
                // SAFETY: blocks are disjoint parts of the output; the rest is passed on.
                unsafe { self.block(machine, group, (row, rows), &segments, count)? };
            }
            Ok(())
        })
    }

    unsafe fn block(
        &self,
        machine: Machine,
        group: usize,
        (row, rows): (usize, usize),
        segments: &[Segment],
        columns: usize,
    ) -> Result {
        let width = T::Compute::width(machine);
        let stride = columns.next_multiple_of(width);
        let depth = self.channels * self.window.taps.len();
        let part = depth.min(BLOCK_DEPTH);
        let packed = if self.weight.is_direct() { 0 } else { rows * part };
        let sizes = [rows * stride, stride * part, packed, stride];
        with_areas(sizes, |[sums, right, left, seen]: [&mut [T::Compute]; 4]| {
            if depth == 0 {
                sums.fill(T::Compute::ZERO);
            }
            seen.fill(T::Compute::ZERO);
            for first in (0..depth).step_by(BLOCK_DEPTH) {
                let part = BLOCK_DEPTH.min(depth - first);
                let range = first..first + part;
                // SAFETY: passed on; the areas have the sizes that the product says.
                unsafe {
                    self.gather(width, group, range.clone(), segments, (&mut *right, &mut *seen));
                    let (left, left_row) = self.weight.rows(group, (row, rows), range, left);
                    let product = Product {
                        rows,
                        columns,
                        depth: part,
                        left,
                        left_row,
                        left_step: 1,
                        right: right.as_ptr(),
                        right_panel: part * width,
                        right_step: width,
                        sums: sums.as_mut_ptr(),
                        stride,
                        begin: first == 0,
                    };
                    product.run(machine);
                }
            }
            for (index, sums) in sums.chunks_exact_mut(stride).enumerate() {
                let channel = group * self.rows + row + index;
                // SAFETY: passed on.
                unsafe { self.finish.store(channel, segments, &mut sums[..columns]) };
            }
        })
    }

    /// Gathers some steps of the depth to panels.
    unsafe fn gather(
        &self,
        width: usize,
        group: usize,
        range: std::ops::Range<usize>,
        segments: &[Segment],
        (to, seen): (&mut [T::Compute], &mut [T::Compute]),
    ) {
        let taps = &self.window.taps;
        for (index, step) in range.clone().enumerate() {
            let (channel, tap) = (group * self.channels + step / taps.len(), step % taps.len());
            for segment in segments {
                let seen = &mut seen[segment.column..][..segment.count];
                let padding = T::Compute::ZERO;
                // SAFETY: passed on.
                unsafe {
                    self.source.read(self.window, segment, channel, &taps[tap], padding, seen);
                }
            }
            let panels = to.chunks_exact_mut(range.len() * width);
            for (panel, seen) in panels.zip(seen.chunks_exact(width)) {
                panel[index * width..][..width].copy_from_slice(seen);
            }
        }
    }
}
