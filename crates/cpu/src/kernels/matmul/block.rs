//! Computes one block of a product from a packed right factor.
//!
//! A part of the right factor, [`DEPTH`] deep and as wide as the block, stays in the second-level
//! cache while the rows pass; the rows of one tile stay in the first-level cache while the panels
//! pass. Sums wait for the next part in the output itself where it has the type computed in.

use std::mem::MaybeUninit;

use super::super::number::{Float, StoredFloat};
use super::super::simd::Machine;
use super::epilogue::{finish, store};
use super::pack::pack_left;
use super::problem::Block;
use super::scratch::{Content, LEFT, SUMS, with_area};
use super::tile::{Multiplied, Shape, Tile, panels_together};

/// Products that are added at a time.
const DEPTH: usize = 384;

/// The most elements that a tile has on any machine.
const LARGEST_TILE: usize = 14 * 32;

/// Cuts `0..count` in as few parts of at most `most` as possible, of about one size.
pub(super) fn parts(count: usize, most: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let parts = count.div_ceil(most);
    (0..parts).map(move |part| part * count / parts..(part + 1) * count / parts)
}

/// Computes a block. `right` is the first of its panels; `content` names the rows of the left factor,
/// so that a thread packs them once for all blocks that it computes of them.
///
/// # Safety
///
/// Nobody else touches the block of the output, the panels hold the right factor as
/// [`pack_right`](super::pack::pack_right) packs it, and `machine` is at hand.
pub(super) unsafe fn compute<T: Multiplied>(
    block: &Block<'_, T>,
    right: *const T,
    content: Content,
    machine: Machine,
) {
    let shape = T::shape(machine);
    let in_place = T::DIRECT && block.dst.column_stride() == 1 && block.depth > 0;
    with_area::<T::Compute, _>(&LEFT, block.rows * block.depth, Some(content), |left, packed| {
        // SAFETY: passed on; the areas have room for what is put there.
        unsafe {
            if !packed {
                pack_rows(block, shape, left, machine);
            }
            if in_place {
                let (sums, stride) = (block.dst.at(0, 0).cast(), block.dst.row_stride());
                Job { block, shape, left, right, sums, stride, in_place, machine }.run();
                return;
            }
            let stride = block.columns.next_multiple_of(shape.columns);
            with_area::<T::Compute, _>(&SUMS, block.rows * stride, None, |sums, _| {
                Job { block, shape, left, right, sums, stride, in_place, machine }.run();
            });
        }
    });
}

unsafe fn pack_rows<T: Multiplied>(
    block: &Block<'_, T>,
    shape: Shape,
    left: *mut T::Compute,
    machine: Machine,
) {
    for part in parts(block.depth, DEPTH) {
        for rows in parts(block.rows, shape.rows) {
            // SAFETY: passed on.
            unsafe {
                let to = left.add(part.start * block.rows + rows.start * part.len());
                pack_left(&block.left, rows.start, rows.len(), part.clone(), to, machine);
            }
        }
    }
}

struct Job<'a, 'b, T: StoredFloat> {
    block: &'a Block<'b, T>,
    shape: Shape,
    left: *const T::Compute,
    right: *const T,
    sums: *mut T::Compute,
    stride: usize,
    /// Whether the sums are the output.
    in_place: bool,
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
                    self.finish(row);
                }
            }
        }
        for part in parts(block.depth, DEPTH) {
            for rows in parts(block.rows, self.shape.rows) {
                // SAFETY: rows and part are of the block; every sum of the rows was written by the
                // tiles when the last part is done.
                unsafe {
                    self.row_of_tiles(&rows, &part);
                    if part.end == block.depth {
                        rows.for_each(|row| self.finish(row));
                    }
                }
            }
        }
    }

    /// Adds one part of the products to all sums of some rows.
    unsafe fn row_of_tiles(&self, rows: &std::ops::Range<usize>, part: &std::ops::Range<usize>) {
        let (block, panel) = (self.block, self.shape.columns);
        let together = panels_together(rows.len(), self.machine);
        let mut column = 0;
        while column < block.columns {
            let room = (block.columns - column) / panel;
            let panels = if room >= together { together } else { 1 };
            // SAFETY: rows, part and columns are of the block, and packed in this order.
            let tile = unsafe {
                Tile {
                    rows: rows.len(),
                    panels,
                    depth: part.len(),
                    left: self.left.add(part.start * block.rows + rows.start * part.len()),
                    right: self.right.add(column * block.depth + part.start * panel),
                    panel_stride: panel * block.depth,
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
