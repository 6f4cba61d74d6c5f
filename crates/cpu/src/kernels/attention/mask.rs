//! What a query does not see.

use super::super::number::{Float, StoredFloat};
use super::super::panels::Panelled;
use super::{Attention, Panel, Tensor};

/// A mask: truth values, or numbers to add.
#[derive(Clone, Copy)]
pub(super) enum Mask<T> {
    Seen(Tensor<u8>),
    Added(Tensor<T>),
}

impl<T: StoredFloat<Compute: Panelled>> Attention<'_, T> {
    /// Scales scores, adds the mask and hides what is not to be seen.
    ///
    /// # Safety
    ///
    /// The scores are those of a block of keys from `first` on, and the mask has an element for each.
    pub(super) unsafe fn prepare(
        &self,
        width: usize,
        panel: Panel,
        first: usize,
        scores: &mut [T::Compute],
    ) {
        let scale = T::Compute::from_f32(self.params.scale);
        scores.iter_mut().for_each(|score| *score = *score * scale);
        let keys = scores.len() / width;
        let hidden = -<T::Compute as Float>::INFINITY;
        for lane in 0..panel.lanes {
            if self.mask.is_none() && !self.params.causal {
                break;
            }
            let (head, query) = self.query_of(panel, lane);
            let place = [panel.batch, head, query, first];
            match self.mask {
                Some(Mask::Seen(mask)) => {
                    let from = mask.at(place);
                    for key in 0..keys {
                        // SAFETY: the mask has an element for every score.
                        if unsafe { from.add(key * mask.strides[3]).read() } == 0 {
                            scores[key * width + lane] = hidden;
                        }
                    }
                }
                Some(Mask::Added(mask)) => {
                    let from = mask.at(place);
                    for key in 0..keys {
                        // SAFETY: the mask has an element for every score.
                        let value = unsafe { from.add(key * mask.strides[3]).read() };
                        scores[key * width + lane] += value.widen();
                    }
                }
                None => {}
            }
            for key in self.visible(query).saturating_sub(first)..keys {
                scores[key * width + lane] = hidden;
            }
        }
    }
}
