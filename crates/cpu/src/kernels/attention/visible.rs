//! The keys that the queries of a panel see.

use std::ops::Range;

use super::softmax::MOST;
use super::{Attention, BLOCK_KEYS, Panel};
use crate::kernels::matmul::panels::PanelElement;
use crate::kernels::shared::number::StoredFloat;

/// The keys that each lane sees, and those that any does.
pub(super) struct VisibleKeys {
    lanes: [(usize, usize); MOST],
    all: Range<usize>,
}

impl VisibleKeys {
    /// Those of a panel, of a batch with so many keys.
    pub fn new<T: StoredFloat<Compute: PanelElement>>(
        attention: &Attention<'_, T>,
        panel: Panel,
        length: usize,
    ) -> Self {
        let window = attention.params.window;
        let mut visible = VisibleKeys { lanes: [(0, length); MOST], all: 0..length };
        if window.is_all() {
            return visible;
        }
        visible.all = length..0;
        for lane in 0..panel.lanes {
            let (_, query) = attention.query_of(panel, lane);
            let keys = window.seen(query, attention.queries, length);
            visible.lanes[lane] = (keys.start, keys.end);
            if !keys.is_empty() {
                visible.all = visible.all.start.min(keys.start)..visible.all.end.max(keys.end);
            }
        }
        visible
    }

    /// From the first block of keys on that anybody sees. Blocks begin where they would for any query.
    pub fn blocks(&self) -> Range<usize> {
        self.all.start / BLOCK_KEYS * BLOCK_KEYS..self.all.end
    }

    /// The keys that a lane does not see, of some from `first` on: those before, and those behind.
    pub fn hidden(&self, lane: usize, first: usize, keys: usize) -> [Range<usize>; 2] {
        let (start, end) = self.lanes[lane];
        [0..start.saturating_sub(first).min(keys), end.saturating_sub(first).min(keys)..keys]
    }
}
