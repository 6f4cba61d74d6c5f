//! Convolution where every output channel sees a single input channel: nothing is shared that
//! a product could make use of, so rows are added tap by tap.

use super::gather::read_run;
use super::product::Conv;
use super::window::{AXES, Segment};
use crate::kernels::matmul::panels::{PanelElement, add_row};
use crate::kernels::shared::fault::{Result, try_share};
use crate::kernels::shared::number::{Float, StoredFloat};
use crate::kernels::shared::parallel::Parallel;
use crate::kernels::shared::scratch::with_areas;
use crate::kernels::shared::simd::Isa;

/// Outputs whose lines are listed at a time.
const TOGETHER: usize = 4096;

impl<T: StoredFloat<Compute: PanelElement>> Conv<'_, T> {
    /// Whether [`run_depthwise`](Self::run_depthwise) is the better way.
    pub fn is_depthwise(&self) -> bool {
        self.channels == 1 && self.rows <= 2
    }

    /// # Safety
    ///
    /// As for [`run`](Self::run), for a convolution with one input channel per group.
    pub unsafe fn run_depthwise(&self, isa: Isa, parallel: &dyn Parallel) -> Result {
        let outputs = self.window.outputs();
        let work = outputs.saturating_mul(self.window.taps.len()) / 4 + outputs;
        let channels = self.groups * self.rows;
        let wide = self.window.axes[AXES - 1].outputs;
        // Whole lines, so that the list of them stays short.
        let together = (TOGETHER / wide).max(1) * wide;
        try_share(parallel, self.batch * channels, work, |range| {
            let mut segments = Vec::new();
            for plane in range {
                let (batch, channel) = (plane / channels, plane % channels);
                with_areas([wide, wide], |[sums, seen]: [&mut [T::Compute]; 2]| {
                    for first in (0..outputs).step_by(together) {
                        let count = together.min(outputs - first);
                        self.window.segments(batch * outputs + first, count, &mut segments);
                        for &segment in &segments {
                            // SAFETY: planes are disjoint parts of the output; the rest is passed on.
                            unsafe { self.line(isa, channel, segment, (sums, seen)) };
                        }
                    }
                })?;
            }
            Ok(())
        })
    }

    unsafe fn line(
        &self,
        isa: Isa,
        channel: usize,
        segment: Segment,
        (sums, seen): (&mut [T::Compute], &mut [T::Compute]),
    ) {
        let (group, row) = (channel / self.rows, channel % self.rows);
        sums.fill(T::Compute::ZERO);
        for (index, tap) in self.window.taps.iter().enumerate() {
            // SAFETY: passed on.
            let run = unsafe { self.source.run(self.window, &segment, group, tap) };
            let Some((inside, from, stride)) = run else { continue };
            let sums = &mut sums[inside];
            // SAFETY: the elements of the run lie inside the input, which nobody writes; they are used
            // where they lie if they are of the type computed in.
            unsafe {
                let seen = if T::DIRECT && stride == 1 {
                    std::slice::from_raw_parts(from.cast::<T::Compute>(), sums.len())
                } else {
                    let seen = &mut seen[..sums.len()];
                    read_run(from, stride, seen);
                    seen
                };
                add_row(isa, self.weight.at(group, row, index), seen, sums);
            }
        }
        let segment = Segment { column: 0, ..segment };
        // SAFETY: passed on.
        unsafe { self.epilogue.store(channel, &[segment], sums) };
    }
}
