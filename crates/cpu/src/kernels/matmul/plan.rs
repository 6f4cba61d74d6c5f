//! How a product is cut in blocks.

use super::tile::{Shape, panels_together};
use crate::kernels::shared::simd::Machine;

/// The most columns of a block: with the depth of a part, what fits the second-level cache.
pub(super) const MOST_COLUMNS: usize = 128;

/// Numbers of the right factor that stay in the second-level cache.
const PART: usize = 128 << 10;

/// The most rows of tiles of a block.
const MOST_TILES: usize = 24;

/// The same where the right factor is packed again for each block: the more rows use it the better.
const MOST_TILES_PACKING: usize = 72;

/// Blocks that are enough to keep the threads of a machine busy.
const ENOUGH: usize = 16;

/// Cycles that a block is worth: handing one to another thread costs microseconds.
const WORTH: usize = 60_000;

/// Rows and columns of the blocks of a product. The bits of a result do not depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Rows of a block.
    pub rows: usize,
    /// Columns of a block, a multiple of those of a panel.
    pub columns: usize,
    /// Blocks below each other.
    pub down: usize,
    /// Blocks beside each other.
    pub across: usize,
}

impl Plan {
    /// A plan for a product that is not empty, whose right factor may be packed already.
    pub fn new(
        [rows, columns, depth]: [usize; 3],
        packed: bool,
        shape: Shape,
        machine: Machine,
    ) -> Self {
        let tiles = if packed { MOST_TILES } else { MOST_TILES_PACKING };
        let down = rows.div_ceil(tiles * shape.rows);
        // A power of two, of which halves are whole panels still.
        let most = if depth <= PART / (2 * MOST_COLUMNS) { 2 * MOST_COLUMNS } else { MOST_COLUMNS };
        let mut plan = Plan { rows: rows.div_ceil(down), columns: most, down, across: 0 };
        let narrowest = if rows <= shape.rows {
            shape.columns * panels_together(rows, machine)
        } else {
            shape.columns.max(MOST_COLUMNS / 4)
        };
        let blocks = |plan: &Plan| rows.div_ceil(plan.rows) * columns.div_ceil(plan.columns);
        let halves = |plan: &Plan| plan.cycles(depth) / 2 >= WORTH;
        while blocks(&plan) < ENOUGH && halves(&plan) && plan.columns / 2 >= narrowest {
            plan.columns /= 2;
        }
        while blocks(&plan) < ENOUGH / 2 && halves(&plan) && plan.rows >= 4 * shape.rows {
            plan.rows = plan.rows.div_ceil(2);
        }
        Plan { down: rows.div_ceil(plan.rows), across: columns.div_ceil(plan.columns), ..plan }
    }

    /// About what a block takes, from the products of a cycle and the bytes that memory gives in one.
    pub fn cycles(&self, depth: usize) -> usize {
        self.columns.saturating_mul(depth).saturating_mul(self.rows + 12) / 32
    }
}

#[cfg(test)]
mod tests;
