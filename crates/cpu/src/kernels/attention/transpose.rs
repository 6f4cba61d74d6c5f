//! Between rows of queries and lanes of a panel.

use std::ops::Range;

use super::{Attention, Panel};
use crate::kernels::matmul::panels::PanelElement;
use crate::kernels::shared::number::{Float, StoredFloat};
use crate::kernels::shared::simd::Isa;
use crate::kernels::shared::transpose::Transposition;

impl<T: StoredFloat<Compute: PanelElement>> Attention<'_, T> {
    /// The lanes of a panel that are neighbors in one head: head, first query, and lanes.
    fn runs(&self, panel: Panel) -> impl Iterator<Item = (usize, usize, Range<usize>)> {
        let mut lane = 0;
        std::iter::from_fn(move || {
            let (head, query) = self.query_of(panel, lane);
            let lanes = lane..panel.lanes.min(lane + self.queries - query);
            lane = lanes.end;
            (!lanes.is_empty()).then_some((head, query, lanes))
        })
    }

    /// Puts queries, scaled, in the lanes of a panel.
    ///
    /// # Safety
    ///
    /// The panel is one of the queries, which nobody writes, and the CPU has the ISA.
    pub(super) unsafe fn transpose_queries(
        &self,
        isa: Isa,
        width: usize,
        panel: Panel,
        to: &mut [T::Compute],
    ) {
        let [.., row, step] = self.query.strides;
        for (head, query, lanes) in self.runs(panel) {
            let from = self.query.at([panel.batch, head, query, 0]).cast_const();
            if T::DIRECT && step == 1 {
                let transposed = Transposition {
                    from: from.cast(),
                    from_stride: row,
                    to: to[lanes.start..].as_mut_ptr(),
                    to_stride: width,
                    lines: lanes.len(),
                    length: self.size,
                };
                // SAFETY: passed on; the panel has a place for every element.
                unsafe { transposed.run(isa) };
                continue;
            }
            for (line, lane) in lanes.enumerate() {
                for index in 0..self.size {
                    // SAFETY: the element belongs to the operand.
                    let value = unsafe { from.add(line * row + index * step).read() };
                    to[index * width + lane] = value.widen();
                }
            }
        }
        let scale = T::Compute::from_f32(self.params.scale);
        to.iter_mut().for_each(|value| *value = *value * scale);
    }

    /// Stores the results of the lanes of a panel.
    ///
    /// # Safety
    ///
    /// The panel is one of the output, which nobody else touches, and the CPU has the ISA.
    pub(super) unsafe fn transpose_results(
        &self,
        isa: Isa,
        width: usize,
        panel: Panel,
        from: &[T::Compute],
    ) {
        let [.., row, step] = self.dst.strides;
        for (head, query, lanes) in self.runs(panel) {
            let to = self.dst.at([panel.batch, head, query, 0]);
            if T::DIRECT && step == 1 {
                let transposed = Transposition {
                    from: from[lanes.start..].as_ptr(),
                    from_stride: width,
                    to: to.cast(),
                    to_stride: row,
                    lines: self.value_size,
                    length: lanes.len(),
                };
                // SAFETY: passed on; the panel has all results.
                unsafe { transposed.run(isa) };
                continue;
            }
            for (line, lane) in lanes.enumerate() {
                for index in 0..self.value_size {
                    let value = T::narrow(from[index * width + lane]);
                    // SAFETY: the element belongs to the output.
                    unsafe { to.add(line * row + index * step).write(value) };
                }
            }
        }
    }
}
