//! Reads and writes states and results.

use super::{Layer, Part, Tensor};
use crate::kernels::conv::{read_run, store_run};
use crate::kernels::matmul::panels::PanelElement;
use crate::kernels::shared::number::{Float, StoredFloat};

impl<T: StoredFloat<Compute: PanelElement>> Layer<'_, T> {
    /// Reads the first states of a part; none count as 0.
    ///
    /// # Safety
    ///
    /// The part belongs to the layer.
    pub(super) unsafe fn read_state(
        &self,
        from: Option<&Tensor<T>>,
        part: Part,
        to: &mut [T::Compute],
    ) {
        let Some(from) = from else { return to.fill(T::Compute::ZERO) };
        for (index, to) in to.chunks_exact_mut(self.hidden).enumerate() {
            let place = [part.direction, part.first + index, 0];
            // SAFETY: passed on.
            unsafe { read_run(from.at(place), from.strides[2], to) };
        }
    }

    /// Writes the last states of a part.
    ///
    /// # Safety
    ///
    /// The part belongs to the layer, and nobody else touches it.
    pub(super) unsafe fn write_state(&self, to: &Tensor<T>, part: Part, from: &[T::Compute]) {
        for (index, from) in from.chunks_exact(self.hidden).enumerate() {
            let place = [part.direction, part.first + index, 0];
            // SAFETY: passed on.
            unsafe { store_run(to.at(place), to.strides[2], from) };
        }
    }

    /// Writes the result of a sequence at a time.
    ///
    /// # Safety
    ///
    /// The part, the time and the sequence belong to the layer, and nobody else touches the result.
    pub(super) unsafe fn write_step(
        &self,
        part: Part,
        time: usize,
        sequence: usize,
        from: &[T::Compute],
    ) {
        let place = [time, part.direction, part.first + sequence];
        // SAFETY: passed on.
        unsafe { store_run(self.sequence.at(place), self.sequence.strides[3], from) };
    }

    /// Writes zeros where a sequence has ended.
    ///
    /// # Safety
    ///
    /// As for [`write_step`](Self::write_step).
    pub(super) unsafe fn write_zeros(&self, part: Part, time: usize, sequence: usize) {
        let place = [time, part.direction, part.first + sequence];
        // SAFETY: passed on.
        unsafe {
            let to = self.sequence.at(place);
            for i in 0..self.hidden {
                to.add(i * self.sequence.strides[3]).write(T::narrow(T::Compute::ZERO));
            }
        }
    }
}
