//! Computes one tile of a product.
//!
//! The macro-kernel takes k in parts of at most [`K_PART`]. The panels of the rhs of one part stay in the
//! second-level cache while all rows of the tile are multiplied with them. The rows of one micro-tile stay in
//! the first-level cache meanwhile. Between two parts the sums are in the output itself, if it has the type
//! computed in and the rows are few, else in scratch memory of the thread.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::epilogue::{apply_epilogue, is_plain, store};
use super::micro_kernel::{GemmElement, MicroTile, Shape, panels_together};
use super::pack::{pack_lhs, pack_rhs};
use super::problem::{Matrix, Tile};
use super::scratch::{Content, LHS, RHS, SUMS, with_area};
use crate::kernels::shared::fault::Result;
use crate::kernels::shared::number::{Float, StoredFloat};
use crate::kernels::shared::simd::Isa;

/// Products that are added at a time.
const K_PART: usize = 1024;

/// Numbers of the lhs that a thread packs at once, for all tiles that use the same rows. Beyond
/// this each tile packs its own, part by part.
const MOST_PACKED: usize = 1 << 26;

/// Rows from which on sums of several parts are not kept in the output.
const MANY_ROWS: usize = 384;

/// The most elements that a micro-tile has on any ISA.
const LARGEST_MICRO_TILE: usize = 14 * 32;

/// Cuts `0..count` in as few parts of at most `most` as possible, of about one size.
pub(crate) fn even_ranges(count: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let parts = count.div_ceil(most);
    let (size, longer) = (count / parts.max(1), count % parts.max(1));
    // The first few are longer by one.
    let start = move |part: usize| part * size + part.min(longer);
    (0..parts).map(move |part| start(part)..start(part + 1))
}

/// Computes a tile. `packed` is the first of its panels where the rhs is packed already;
/// `content` names the rows of the lhs, so that a thread packs them once for all tiles that
/// it computes of them.
///
/// # Safety
///
/// Nobody else touches the tile of the output, the panels hold the rhs as
/// [`pack_rhs`] packs it, and the CPU has `isa`.
pub(super) unsafe fn compute<T: GemmElement>(
    tile: &Tile<'_, T>,
    packed: Option<*const T>,
    content: Content,
    isa: Isa,
) -> Result {
    let shape = T::shape(isa);
    let panels = if packed.is_some() { 0 } else { tile.columns.next_multiple_of(shape.columns) };
    with_area::<T, _>(&RHS, panels * tile.k.min(K_PART), None, |area, _| {
        let rhs = packed.map_or(Rhs::Unpacked(area), Rhs::Packed);
        // SAFETY: passed on; the area has room for one part.
        unsafe { with_rhs(tile, rhs, content, shape, isa) }
    })?
}

/// Where the panels of the rhs come from.
#[derive(Clone, Copy)]
enum Rhs<T> {
    /// The first of the panels.
    Packed(*const T),
    /// Each part is packed to this area when its turn comes.
    Unpacked(*mut T),
}

unsafe fn with_rhs<T: GemmElement>(
    tile: &Tile<'_, T>,
    rhs: Rhs<T>,
    content: Content,
    shape: Shape,
    isa: Isa,
) -> Result {
    // Many rows of an output may displace each other in the caches. Sums that are needed again must stay there.
    let again = tile.k > K_PART && tile.rows > MANY_ROWS;
    let dense = T::DIRECT && tile.dst.column_stride() == 1;
    let in_place = dense && tile.k > 0 && !again;
    let has_epilogue = !in_place || !is_plain(tile);
    let with_lhs = |lhs: Lhs<T>| {
        // SAFETY: passed on; the area has room for the sums.
        unsafe {
            if in_place {
                let (sums, stride) = (tile.dst.at(0, 0).cast(), tile.dst.row_stride());
                MacroKernel { tile, shape, lhs, rhs, sums, stride, in_place, has_epilogue, isa }
                    .run();
                return Ok(());
            }
            let stride = tile.columns.next_multiple_of(shape.columns);
            with_area::<T::Compute, _>(&SUMS, tile.rows * stride, None, |sums, _| {
                MacroKernel { tile, shape, lhs, rhs, sums, stride, in_place, has_epilogue, isa }
                    .run();
            })
        }
    };
    if serves_as_it_lies(&tile.lhs) {
        return with_lhs(Lhs::Unpacked(tile.lhs));
    }
    if tile.rows.saturating_mul(tile.k) > MOST_PACKED {
        let size = tile.rows * tile.k.min(K_PART);
        return with_area::<T::Compute, _>(&LHS, size, None, |lhs, _| {
            with_lhs(Lhs::PartByPart(lhs))
        })?;
    }
    with_area::<T::Compute, _>(&LHS, tile.rows * tile.k, Some(content), |lhs, packed| {
        if !packed {
            for part in even_ranges(tile.k, K_PART) {
                // SAFETY: passed on; the area has room for the rows.
                unsafe {
                    let to = lhs.add(part.start * tile.rows);
                    pack_rows(tile, shape, &part, to, isa);
                }
            }
        }
        with_lhs(Lhs::Packed(lhs))
    })?
}

/// Where the rows of the lhs come from.
#[derive(Clone, Copy)]
enum Lhs<T: StoredFloat> {
    /// All rows, packed by [`pack_rows`].
    Packed(*const T::Compute),
    /// The rows of each part are packed to this area when its turn comes.
    PartByPart(*mut T::Compute),
    /// The operand itself.
    Unpacked(Matrix<T>),
}

impl<T: StoredFloat> Lhs<T> {
    /// Some rows of one part: the first number, and the strides of rows and of k.
    ///
    /// # Safety
    ///
    /// Rows and part are of the tile, and as they were packed.
    unsafe fn at(
        self,
        tile: &Tile<'_, T>,
        rows: &Range<usize>,
        part: &Range<usize>,
    ) -> (*const T::Compute, usize, usize) {
        // SAFETY: passed on.
        unsafe {
            match self {
                Lhs::Packed(first) => {
                    let place = part.start * tile.rows + rows.start * part.len();
                    (first.add(place), 1, rows.len())
                }
                Lhs::PartByPart(first) => {
                    (first.add(rows.start * part.len()).cast_const(), 1, rows.len())
                }
                Lhs::Unpacked(matrix) => {
                    let first = matrix.at(rows.start, part.start).cast_const().cast();
                    (first, matrix.row_stride(), matrix.column_stride())
                }
            }
        }
    }
}

/// Whether the rows of a micro-tile are read where they lie. Rows a multiple of a page apart would displace
/// each other in the first-level cache.
fn serves_as_it_lies<T: StoredFloat>(lhs: &Matrix<T>) -> bool {
    const PAGE: usize = 4096;
    T::DIRECT
        && lhs.column_stride() == 1
        && !(lhs.row_stride() * size_of::<T>()).is_multiple_of(PAGE)
}

/// Packs all rows of one part.
unsafe fn pack_rows<T: GemmElement>(
    tile: &Tile<'_, T>,
    shape: Shape,
    part: &Range<usize>,
    to: *mut T::Compute,
    isa: Isa,
) {
    for rows in even_ranges(tile.rows, shape.rows) {
        // SAFETY: passed on.
        unsafe {
            let to = to.add(rows.start * part.len());
            pack_lhs(&tile.lhs, rows.start, rows.len(), part.clone(), to, isa);
        }
    }
}

/// The rhs of one part.
struct Panels<T> {
    /// The first packed panel.
    first: *const T,
    /// Elements between packed panels.
    stride: usize,
    /// The rhs itself, and how many of its first panels are read there.
    plain: Option<(Matrix<T>, usize)>,
}

impl<T: Copy> Panels<T> {
    /// A panel, with the distance of its groups, and that of panels.
    ///
    /// # Safety
    ///
    /// The panel is one of the part.
    unsafe fn at(&self, index: usize, width: usize) -> (*const T, usize, usize) {
        match self.plain {
            Some((matrix, count)) if index < count => {
                // SAFETY: passed on.
                let first = unsafe { matrix.at(0, index * width) };
                (first.cast_const(), matrix.row_stride(), width)
            }
            _ => (self.first.wrapping_add(index * self.stride), width, self.stride),
        }
    }
}

struct MacroKernel<'a, 'b, T: StoredFloat> {
    tile: &'a Tile<'b, T>,
    shape: Shape,
    lhs: Lhs<T>,
    rhs: Rhs<T>,
    sums: *mut T::Compute,
    stride: usize,
    /// Whether the sums are the output.
    in_place: bool,
    /// Whether something is left to do with the sums.
    has_epilogue: bool,
    isa: Isa,
}

impl<T: GemmElement> MacroKernel<'_, '_, T> {
    unsafe fn run(&self) {
        let tile = self.tile;
        if tile.k == 0 {
            for row in 0..tile.rows {
                // SAFETY: the row is one of the sums; numbers of them are written, then read.
                unsafe {
                    let sums = self.sums.add(row * self.stride);
                    (0..tile.columns).for_each(|i| sums.add(i).write(T::Compute::ZERO));
                    if self.has_epilogue {
                        self.apply_epilogue(row);
                    }
                }
            }
        }
        for part in even_ranges(tile.k, K_PART) {
            // SAFETY: the part is one of the tile.
            let panels = unsafe { self.panels(&part) };
            if let Lhs::PartByPart(area) = self.lhs {
                // SAFETY: as above, and the area has room for it.
                unsafe { pack_rows(tile, self.shape, &part, area, self.isa) };
            }
            for rows in even_ranges(tile.rows, self.shape.rows) {
                // SAFETY: rows and part are of the tile; every sum of the rows was written by the
                // micro-tiles when the last part is done.
                unsafe {
                    self.row_of_micro_tiles(&rows, &part, &panels);
                    if part.end == tile.k && self.has_epilogue {
                        rows.for_each(|row| self.apply_epilogue(row));
                    }
                }
            }
        }
    }

    /// The rhs of one part, packed now if it is not yet.
    unsafe fn panels(&self, part: &Range<usize>) -> Panels<T> {
        let (tile, panel) = (self.tile, self.shape.columns);
        // SAFETY: the part is one of the tile; the area has room for it.
        unsafe {
            match self.rhs {
                Rhs::Packed(first) => {
                    let (first, stride) = (first.add(part.start * panel), panel * tile.k);
                    Panels { first, stride, plain: None }
                }
                Rhs::Unpacked(area) => {
                    let size = [part.len(), tile.columns];
                    let from = tile.rhs.below(part.start);
                    // Rows that are used once or twice are not worth packing; a panel that is not
                    // full is, since a micro-tile reads all of it.
                    let direct = from.column_stride() == 1 && tile.rows <= self.shape.rows;
                    let first = if direct { tile.columns / panel } else { 0 };
                    let panels = first..tile.columns.div_ceil(panel);
                    pack_rhs(&from, size, panel, panels, area, self.isa);
                    let stride = panel * part.len();
                    let area = area.cast_const().wrapping_sub(first * stride);
                    Panels { first: area, stride, plain: direct.then_some((from, first)) }
                }
            }
        }
    }

    /// Adds one part of the products to all sums of some rows.
    unsafe fn row_of_micro_tiles(&self, rows: &Range<usize>, part: &Range<usize>, rhs: &Panels<T>) {
        let (tile, panel) = (self.tile, self.shape.columns);
        let together = panels_together(rows.len(), self.isa);
        let mut column = 0;
        while column < tile.columns {
            let room = (tile.columns - column) / panel;
            let panels = if room >= together { together } else { 1 };
            // SAFETY: rows, part and columns are of the tile, and packed in this order.
            let micro_tile = unsafe {
                let (first, rhs_k_stride, rhs_panel_stride) = rhs.at(column / panel, panel);
                let (first_lhs, lhs_row_stride, lhs_k_stride) = self.lhs.at(tile, rows, part);
                MicroTile {
                    rows: rows.len(),
                    panels,
                    k: part.len(),
                    lhs: first_lhs,
                    lhs_row_stride,
                    lhs_k_stride,
                    rhs: first,
                    rhs_k_stride,
                    rhs_panel_stride,
                    sums: self.sums.add(rows.start * self.stride + column),
                    stride: self.stride,
                    begin: part.start == 0,
                }
            };
            // SAFETY: as above. Only a panel that is not full reaches beyond the output.
            unsafe {
                if room == 0 && self.in_place {
                    self.narrow_micro_tile(micro_tile, tile.columns - column);
                } else {
                    T::add(micro_tile, self.isa);
                }
            }
            column += panels * panel;
        }
    }

    /// A micro-tile of which the first few columns count.
    unsafe fn narrow_micro_tile(&self, micro_tile: MicroTile<T>, columns: usize) {
        let mut sums = [const { MaybeUninit::<T::Compute>::uninit() }; LARGEST_MICRO_TILE];
        let (sums, stride) = (sums.as_mut_ptr().cast::<T::Compute>(), self.shape.columns);
        // SAFETY: no micro-tile is larger than this one; the columns that count are valid in the output.
        unsafe {
            if !micro_tile.begin {
                (0..micro_tile.rows * stride).for_each(|i| sums.add(i).write(T::Compute::ZERO));
                for row in 0..micro_tile.rows {
                    let from = micro_tile.sums.add(row * micro_tile.stride);
                    sums.add(row * stride).copy_from_nonoverlapping(from, columns);
                }
            }
            T::add(MicroTile { sums, stride, ..micro_tile }, self.isa);
            for row in 0..micro_tile.rows {
                let to = micro_tile.sums.add(row * micro_tile.stride);
                to.copy_from_nonoverlapping(sums.add(row * stride), columns);
            }
        }
    }

    /// Makes results of the sums of a row.
    unsafe fn apply_epilogue(&self, row: usize) {
        // SAFETY: the row is one of the tile, and its sums are initialized.
        unsafe {
            let sums = self.sums.add(row * self.stride);
            let sums = std::slice::from_raw_parts_mut(sums, self.tile.columns);
            apply_epilogue(self.tile, row, sums);
            if !self.in_place {
                store(&self.tile.dst, row, sums);
            }
        }
    }
}

#[cfg(test)]
mod tests;
