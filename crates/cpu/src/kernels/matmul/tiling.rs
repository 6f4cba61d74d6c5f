//! How a product is cut in tiles.

use super::micro_kernel::{Shape, panels_together};
use crate::kernels::shared::simd::Isa;

/// The most columns of a tile: with a part of k, what fits the second-level cache.
pub(super) const MOST_COLUMNS: usize = 128;

/// Numbers of the rhs that stay in the second-level cache.
const PART: usize = 128 << 10;

/// The most rows of micro-tiles of a tile.
const MOST_MICRO_TILES: usize = 24;

/// The same where the rhs is packed again for each tile: the more rows use it the better.
const MOST_MICRO_TILES_PACKING: usize = 72;

/// Tiles that are enough to keep the threads of a machine busy.
const ENOUGH: usize = 16;

/// Cycles that a tile is worth: handing one to another thread costs microseconds.
const WORTH: usize = 60_000;

/// Rows and columns of the tiles of a product. The bits of a result do not depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    /// Rows of a tile.
    pub rows: usize,
    /// Columns of a tile, a multiple of those of a panel.
    pub columns: usize,
    /// Tiles below each other.
    pub down: usize,
    /// Tiles beside each other.
    pub across: usize,
}

impl Tiling {
    /// How to tile a product that is not empty, whose rhs may be packed already.
    pub fn new([rows, columns, k]: [usize; 3], packed: bool, shape: Shape, isa: Isa) -> Self {
        let micro_tiles = if packed { MOST_MICRO_TILES } else { MOST_MICRO_TILES_PACKING };
        let down = rows.div_ceil(micro_tiles * shape.rows);
        // A power of two, of which halves are whole panels still.
        let most = if k <= PART / (2 * MOST_COLUMNS) { 2 * MOST_COLUMNS } else { MOST_COLUMNS };
        let mut tiling = Tiling { rows: rows.div_ceil(down), columns: most, down, across: 0 };
        let narrowest = if rows <= shape.rows {
            shape.columns * panels_together(rows, isa)
        } else {
            shape.columns.max(MOST_COLUMNS / 4)
        };
        let tiles = |tiling: &Tiling| rows.div_ceil(tiling.rows) * columns.div_ceil(tiling.columns);
        let halves = |tiling: &Tiling| tiling.cycles(k) / 2 >= WORTH;
        while tiles(&tiling) < ENOUGH && halves(&tiling) && tiling.columns / 2 >= narrowest {
            tiling.columns /= 2;
        }
        while tiles(&tiling) < ENOUGH / 2 && halves(&tiling) && tiling.rows >= 4 * shape.rows {
            tiling.rows = tiling.rows.div_ceil(2);
        }
        Tiling {
            down: rows.div_ceil(tiling.rows),
            across: columns.div_ceil(tiling.columns),
            ..tiling
        }
    }

    /// About what a tile takes, from the products of a cycle and the bytes that memory gives in one.
    pub fn cycles(&self, k: usize) -> usize {
        self.columns.saturating_mul(k).saturating_mul(self.rows + 12) / 32
    }
}

#[cfg(test)]
mod tests;
