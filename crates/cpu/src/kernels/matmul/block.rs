//! Computes one block of a product.
//!
//! A part of the right factor, [`DEPTH`] deep and as wide as the block, stays in the second-level
//! cache while the rows pass; the rows of one tile stay in the first-level cache while the panels
//! pass. Sums wait for the next part in the output itself where it has the type computed in and the
//! rows are few, else in an area of the thread.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::epilogue::{finish, is_plain, store};
use super::pack::{pack_left, pack_right};
use super::problem::{Block, Matrix};
use super::scratch::{Content, LEFT, RIGHT, SUMS, with_area};
use super::tile::{Multiplied, Shape, Tile, panels_together};
use crate::kernels::shared::fault::Result;
use crate::kernels::shared::number::{Float, StoredFloat};
use crate::kernels::shared::simd::Machine;

/// Products that are added at a time.
const DEPTH: usize = 1024;

/// Numbers of the left factor that a thread packs at once, for all blocks that use the same rows. Beyond
/// this each block packs its own, part by part.
const MOST_PACKED: usize = 1 << 26;

/// Rows from which on sums of several parts are not kept in the output.
const MANY_ROWS: usize = 384;

/// The most elements that a tile has on any machine.
const LARGEST_TILE: usize = 14 * 32;

/// Cuts `0..count` in as few parts of at most `most` as possible, of about one size.
pub(crate) fn parts(count: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let parts = count.div_ceil(most);
    let (size, longer) = (count / parts.max(1), count % parts.max(1));
    // The first few are longer by one.
    let start = move |part: usize| part * size + part.min(longer);
    (0..parts).map(move |part| start(part)..start(part + 1))
}

/// Computes a block. `packed` is the first of its panels where the right factor is packed already;
/// `content` names the rows of the left factor, so that a thread packs them once for all blocks that
/// it computes of them.
///
/// # Safety
///
/// Nobody else touches the block of the output, the panels hold the right factor as
/// [`pack_right`] packs it, and `machine` is at hand.
pub(super) unsafe fn compute<T: Multiplied>(
    block: &Block<'_, T>,
    packed: Option<*const T>,
    content: Content,
    machine: Machine,
) -> Result {
    let shape = T::shape(machine);
    let panels = if packed.is_some() { 0 } else { block.columns.next_multiple_of(shape.columns) };
    with_area::<T, _>(&RIGHT, panels * block.depth.min(DEPTH), None, |area, _| {
        let right = packed.map_or(Right::Plain(area), Right::Packed);
        // SAFETY: passed on; the area has room for one part.
        unsafe { with_right(block, right, content, shape, machine) }
    })?
}

/// Where the panels of the right factor come from.
#[derive(Clone, Copy)]
enum Right<T> {
    /// The first of the panels.
    Packed(*const T),
    /// Each part is packed to this area when its turn comes.
    Plain(*mut T),
}

unsafe fn with_right<T: Multiplied>(
    block: &Block<'_, T>,
    right: Right<T>,
    content: Content,
    shape: Shape,
    machine: Machine,
) -> Result {
    // Many rows of an output may lie so that they displace each other in the caches, which sums that
    // are needed again must not.
    let again = block.depth > DEPTH && block.rows > MANY_ROWS;
    let dense = T::DIRECT && block.dst.column_stride() == 1;
    let in_place = dense && block.depth > 0 && !again;
    let unfinished = !in_place || !is_plain(block);
    let with_left = |left: Left<T>| {
        // SAFETY: passed on; the area has room for the sums.
        unsafe {
            if in_place {
                let (sums, stride) = (block.dst.at(0, 0).cast(), block.dst.row_stride());
                Job { block, shape, left, right, sums, stride, in_place, unfinished, machine }
                    .run();
                return Ok(());
            }
            let stride = block.columns.next_multiple_of(shape.columns);
            with_area::<T::Compute, _>(&SUMS, block.rows * stride, None, |sums, _| {
                Job { block, shape, left, right, sums, stride, in_place, unfinished, machine }
                    .run();
            })
        }
    };
    if serves_as_it_lies(&block.left) {
        return with_left(Left::Plain(block.left));
    }
    if block.rows.saturating_mul(block.depth) > MOST_PACKED {
        let size = block.rows * block.depth.min(DEPTH);
        return with_area::<T::Compute, _>(&LEFT, size, None, |left, _| {
            with_left(Left::Parts(left))
        })?;
    }
    with_area::<T::Compute, _>(&LEFT, block.rows * block.depth, Some(content), |left, packed| {
        if !packed {
            for part in parts(block.depth, DEPTH) {
                // SAFETY: passed on; the area has room for the rows.
                unsafe {
                    let to = left.add(part.start * block.rows);
                    pack_rows(block, shape, &part, to, machine);
                }
            }
        }
        with_left(Left::Packed(left))
    })?
}

/// Where the rows of the left factor come from.
#[derive(Clone, Copy)]
enum Left<T: StoredFloat> {
    /// All rows, packed by [`pack_rows`].
    Packed(*const T::Compute),
    /// The rows of each part are packed to this area when its turn comes.
    Parts(*mut T::Compute),
    /// The factor itself.
    Plain(Matrix<T>),
}

impl<T: StoredFloat> Left<T> {
    /// Some rows of one part: the first number, and the distances of rows and of groups.
    ///
    /// # Safety
    ///
    /// Rows and part are of the block, and as they were packed.
    unsafe fn at(
        self,
        block: &Block<'_, T>,
        rows: &Range<usize>,
        part: &Range<usize>,
    ) -> (*const T::Compute, usize, usize) {
        // SAFETY: passed on.
        unsafe {
            match self {
                Left::Packed(first) => {
                    let place = part.start * block.rows + rows.start * part.len();
                    (first.add(place), 1, rows.len())
                }
                Left::Parts(first) => {
                    (first.add(rows.start * part.len()).cast_const(), 1, rows.len())
                }
                Left::Plain(matrix) => {
                    let first = matrix.at(rows.start, part.start).cast_const().cast();
                    (first, matrix.row_stride(), matrix.column_stride())
                }
            }
        }
    }
}

/// Whether the rows of a tile are read where they lie. Rows a multiple of a page apart would displace
/// each other in the first-level cache.
fn serves_as_it_lies<T: StoredFloat>(left: &Matrix<T>) -> bool {
    const PAGE: usize = 4096;
    T::DIRECT
        && left.column_stride() == 1
        && !(left.row_stride() * size_of::<T>()).is_multiple_of(PAGE)
}

/// Packs all rows of one part.
unsafe fn pack_rows<T: Multiplied>(
    block: &Block<'_, T>,
    shape: Shape,
    part: &Range<usize>,
    to: *mut T::Compute,
    machine: Machine,
) {
    for rows in parts(block.rows, shape.rows) {
        // SAFETY: passed on.
        unsafe {
            let to = to.add(rows.start * part.len());
            pack_left(&block.left, rows.start, rows.len(), part.clone(), to, machine);
        }
    }
}

/// The right factor of one part.
struct Panels<T> {
    /// The first packed panel.
    first: *const T,
    /// Elements between packed panels.
    stride: usize,
    /// Panels of which the first few are used where they lie, and how many.
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

struct Job<'a, 'b, T: StoredFloat> {
    block: &'a Block<'b, T>,
    shape: Shape,
    left: Left<T>,
    right: Right<T>,
    sums: *mut T::Compute,
    stride: usize,
    /// Whether the sums are the output.
    in_place: bool,
    /// Whether something is left to do with the sums.
    unfinished: bool,
    machine: Machine,
}

impl<T: Multiplied> Job<'_, '_, T> {
    unsafe fn run(&self) {
        let block = self.block;
        if block.depth == 0 {
            for row in 0..block.rows {
                // SAFETY: the row is one of the sums; numbers of them are written, then read.
                unsafe {
                    let sums = self.sums.add(row * self.stride);
                    (0..block.columns).for_each(|i| sums.add(i).write(T::Compute::ZERO));
                    if self.unfinished {
                        self.finish(row);
                    }
                }
            }
        }
        for part in parts(block.depth, DEPTH) {
            // SAFETY: the part is one of the block.
            let panels = unsafe { self.panels(&part) };
            if let Left::Parts(area) = self.left {
                // SAFETY: as above, and the area has room for it.
                unsafe { pack_rows(block, self.shape, &part, area, self.machine) };
            }
            for rows in parts(block.rows, self.shape.rows) {
                // SAFETY: rows and part are of the block; every sum of the rows was written by the
                // tiles when the last part is done.
                unsafe {
                    self.row_of_tiles(&rows, &part, &panels);
                    if part.end == block.depth && self.unfinished {
                        rows.for_each(|row| self.finish(row));
                    }
                }
            }
        }
    }

    /// The right factor of one part, packed now if it is not yet.
    unsafe fn panels(&self, part: &Range<usize>) -> Panels<T> {
        let (block, panel) = (self.block, self.shape.columns);
        // SAFETY: the part is one of the block; the area has room for it.
        unsafe {
            match self.right {
                Right::Packed(first) => {
                    let (first, stride) = (first.add(part.start * panel), panel * block.depth);
                    Panels { first, stride, plain: None }
                }
                Right::Plain(area) => {
                    let size = [part.len(), block.columns];
                    let from = block.right.below(part.start);
                    // Rows that are used once or twice are not worth packing; a panel that is not
                    // full is, since a tile reads all of it.
                    let direct = from.column_stride() == 1 && block.rows <= self.shape.rows;
                    let first = if direct { block.columns / panel } else { 0 };
                    let panels = first..block.columns.div_ceil(panel);
                    pack_right(&from, size, panel, panels, area, self.machine);
                    let stride = panel * part.len();
                    let area = area.cast_const().wrapping_sub(first * stride);
                    Panels { first: area, stride, plain: direct.then_some((from, first)) }
                }
            }
        }
    }

    /// Adds one part of the products to all sums of some rows.
    unsafe fn row_of_tiles(&self, rows: &Range<usize>, part: &Range<usize>, right: &Panels<T>) {
        let (block, panel) = (self.block, self.shape.columns);
        let together = panels_together(rows.len(), self.machine);
        let mut column = 0;
        while column < block.columns {
            let room = (block.columns - column) / panel;
            let panels = if room >= together { together } else { 1 };
            // SAFETY: rows, part and columns are of the block, and packed in this order.
            let tile = unsafe {
                let (first, group_stride, panel_stride) = right.at(column / panel, panel);
                let (first_left, left_row, left_step) = self.left.at(block, rows, part);
                Tile {
                    rows: rows.len(),
                    panels,
                    depth: part.len(),
                    left: first_left,
                    left_row,
                    left_step,
                    right: first,
                    group_stride,
                    panel_stride,
                    sums: self.sums.add(rows.start * self.stride + column),
                    stride: self.stride,
                    begin: part.start == 0,
                }
            };
            // SAFETY: as above. Only a panel that is not full reaches beyond the output.
            unsafe {
                if room == 0 && self.in_place {
                    self.narrow_tile(tile, block.columns - column);
                } else {
                    T::add(tile, self.machine);
                }
            }
            column += panels * panel;
        }
    }

    /// A tile of which the first few columns count.
    unsafe fn narrow_tile(&self, tile: Tile<T>, columns: usize) {
        let mut sums = [const { MaybeUninit::<T::Compute>::uninit() }; LARGEST_TILE];
        let (sums, stride) = (sums.as_mut_ptr().cast::<T::Compute>(), self.shape.columns);
        // SAFETY: no tile is larger than this one; the columns that count are valid in the output.
        unsafe {
            if !tile.begin {
                (0..tile.rows * stride).for_each(|i| sums.add(i).write(T::Compute::ZERO));
                for row in 0..tile.rows {
                    let from = tile.sums.add(row * tile.stride);
                    sums.add(row * stride).copy_from_nonoverlapping(from, columns);
                }
            }
            T::add(Tile { sums, stride, ..tile }, self.machine);
            for row in 0..tile.rows {
                let to = tile.sums.add(row * tile.stride);
                to.copy_from_nonoverlapping(sums.add(row * stride), columns);
            }
        }
    }

    /// Makes results of the sums of a row.
    unsafe fn finish(&self, row: usize) {
        // SAFETY: the row is one of the block, and its sums are initialised.
        unsafe {
            let sums = self.sums.add(row * self.stride);
            let sums = std::slice::from_raw_parts_mut(sums, self.block.columns);
            finish(self.block, row, sums);
            if !self.in_place {
                store(&self.block.dst, row, sums);
            }
        }
    }
}

#[cfg(test)]
mod tests;
