//! The macro-kernel: computes one tile of a product.
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
use super::problem::Tile;
use super::ranges::even_ranges;
use super::sources::{Lhs, Panels, Rhs, is_read_in_place};
use crate::kernels::shared::fault::Result;
use crate::kernels::shared::number::{Float, StoredFloat};
use crate::kernels::shared::scratch::{Content, Slot, with_slot};
use crate::kernels::shared::simd::Isa;

/// Products that are added at a time.
const K_PART: usize = 1024;

/// Numbers of the lhs that a thread packs at once, for all tiles that use the same rows. Beyond
/// this each tile packs its own, part by part.
const MAX_PACKED: usize = 1 << 26;

/// Rows from which on sums of several parts are not kept in the output.
const MANY_ROWS: usize = 384;

/// A packed rhs of so many bytes does not stay in the second-level cache until the next call.
const LARGE_RHS: usize = 1 << 20;

/// The most elements that a micro-tile has on any ISA.
const LARGEST_MICRO_TILE: usize = 14 * 32;

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
    with_slot::<T, _>(Slot::Rhs, panels * tile.k.min(K_PART), None, |area, _| {
        let rhs = packed.map_or(Rhs::Unpacked(area), Rhs::Packed);
        // SAFETY: passed on; the area has room for one part.
        unsafe { with_rhs(tile, rhs, content, shape, isa) }
    })?
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
            with_slot::<T::Compute, _>(Slot::Sums, tile.rows * stride, None, |sums, _| {
                MacroKernel { tile, shape, lhs, rhs, sums, stride, in_place, has_epilogue, isa }
                    .run();
            })
        }
    };
    if is_read_in_place(&tile.lhs) {
        return with_lhs(Lhs::Unpacked(tile.lhs));
    }
    if tile.rows.saturating_mul(tile.k) > MAX_PACKED {
        let size = tile.rows * tile.k.min(K_PART);
        return with_slot::<T::Compute, _>(Slot::Lhs, size, None, |lhs, _| {
            with_lhs(Lhs::PartByPart(lhs))
        })?;
    }
    with_slot::<T::Compute, _>(Slot::Lhs, tile.rows * tile.k, Some(content), |lhs, packed| {
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
        let together = if self.reads_one_panel(rows.len()) {
            1
        } else {
            panels_together(rows.len(), self.isa)
        };
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

    /// Whether a row of products takes a panel at a time, though more sums under way would hide the time of an addition: a rhs that
    /// comes from beyond the second-level cache comes faster as one stream than as four, and two sums of 16 numbers keep up
    /// with it.
    fn reads_one_panel(&self, rows: usize) -> bool {
        let bytes = self.tile.rhs_elements.saturating_mul(size_of::<T>());
        #[cfg(target_arch = "x86_64")]
        let keeps_up = self.isa == Isa::Avx512 && size_of::<T>() >= 4;
        #[cfg(not(target_arch = "x86_64"))]
        let keeps_up = false;
        keeps_up && rows == 1 && bytes >= LARGE_RHS && matches!(self.rhs, Rhs::Packed(_))
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
