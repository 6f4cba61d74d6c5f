//! What a query does not see.

use super::{Attention, Panel, Tensor, VisibleKeys};
use crate::kernels::matmul::panels::PanelElement;
use crate::kernels::shared::number::{Float, StoredFloat};
use crate::kernels::shared::simd::{Isa, SimdFn, vectorized_for};

/// A mask: truth values, or numbers to add.
#[derive(Clone, Copy)]
pub(super) enum Mask<T> {
    Bool(Tensor<u8>),
    Additive(Tensor<T>),
}

impl<T: StoredFloat> Mask<T> {
    /// Whether heads and queries share what they see, as for sentences that are filled up.
    fn is_one_for_all_queries(self) -> bool {
        let (Mask::Bool(Tensor { strides, .. }) | Mask::Additive(Tensor { strides, .. })) = self;
        strides[1] == 0 && strides[2] == 0
    }

    /// Adds what is the same for all lanes to rows of scores.
    ///
    /// # Safety
    ///
    /// The mask has an element for every row from that place on.
    unsafe fn add_to_rows(self, width: usize, place: [usize; 4], scores: &mut [T::Compute]) {
        let hidden = -<T::Compute as Float>::INFINITY;
        for (key, row) in scores.chunks_exact_mut(width).enumerate() {
            // SAFETY: passed on.
            unsafe {
                match self {
                    Mask::Bool(mask) => {
                        if mask.at(place).add(key * mask.strides[3]).read() == 0 {
                            row.fill(hidden);
                        }
                    }
                    Mask::Additive(mask) => {
                        let value = mask.at(place).add(key * mask.strides[3]).read().widen();
                        row.iter_mut().for_each(|score| *score += value);
                    }
                }
            }
        }
    }
}

impl<T: StoredFloat<Compute: PanelElement>> Attention<'_, T> {
    /// Limits scores, adds the mask to them and hides what is not to be seen.
    ///
    /// # Safety
    ///
    /// The scores are those of a block of keys from `first` on, the mask has an element for each, and the
    /// CPU has the ISA.
    pub(super) unsafe fn prepare(
        &self,
        isa: Isa,
        width: usize,
        panel: Panel,
        visible: &VisibleKeys,
        first: usize,
        scores: &mut [T::Compute],
    ) {
        if let Some(softcap) = self.params.softcap {
            let limit = SoftCap { limit: T::Compute::from_f32(softcap), scores: &mut *scores };
            // SAFETY: the CPU has the ISA.
            unsafe { vectorized_for(isa, limit) };
        }
        let keys = scores.len() / width;
        let hidden = -<T::Compute as Float>::INFINITY;
        let sees_all = self.params.window.is_all();
        if self.mask.is_none() && sees_all {
            return;
        }
        if let Some(mask) = self.mask
            && mask.is_one_for_all_queries()
        {
            // SAFETY: passed on.
            unsafe { mask.add_to_rows(width, [panel.batch, 0, 0, first], scores) };
            if sees_all {
                return;
            }
        }
        for lane in 0..panel.lanes {
            let (head, query) = self.query_of(panel, lane);
            let place = [panel.batch, head, query, first];
            match self.mask.filter(|mask| !mask.is_one_for_all_queries()) {
                Some(Mask::Bool(mask)) => {
                    let from = mask.at(place);
                    for key in 0..keys {
                        // SAFETY: the mask has an element for every score.
                        if unsafe { from.add(key * mask.strides[3]).read() } == 0 {
                            scores[key * width + lane] = hidden;
                        }
                    }
                }
                Some(Mask::Additive(mask)) => {
                    let from = mask.at(place);
                    for key in 0..keys {
                        // SAFETY: the mask has an element for every score.
                        let value = unsafe { from.add(key * mask.strides[3]).read() };
                        scores[key * width + lane] += value.widen();
                    }
                }
                None => {}
            }
            for key in visible.hidden(lane, first, keys).into_iter().flatten() {
                scores[key * width + lane] = hidden;
            }
        }
    }
}

/// Limits scores softly.
struct SoftCap<'a, F> {
    limit: F,
    scores: &'a mut [F],
}

impl<F: Float> SimdFn for SoftCap<'_, F> {
    #[inline(always)]
    fn run(self) {
        let limit = self.limit;
        self.scores.iter_mut().for_each(|score| *score = limit * (*score / limit).tanh());
    }
}
