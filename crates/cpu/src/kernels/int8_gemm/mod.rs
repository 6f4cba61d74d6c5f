//! Matrix products of 8-bit integers with exact 32-bit sums.
//!
//! Instructions for such products take an unsigned lhs and a signed rhs. Operands of the other kind are shifted
//! by 128 as they are packed, which is the same as another zero point. Zero points are taken off at the end:
//! with row sums `A` and column sums `B`, `Σ (a - x)(b - y) = Σ ab - y A - x B + k x y`. All is
//! exact modulo 2³². Sums are rescaled row by row of a tile, while they are in the cache.

mod macro_kernel;
mod matrix;
mod micro_kernel;
mod rescale;

#[cfg(test)]
mod tests;

pub(super) use macro_kernel::{Tile, TileOperands, Zeros};
pub(super) use rescale::{
    Activate, RescaleOperands, RescaledElement, Scale, Scales, add, add_to_sums, with_rescaled,
};

use millstream_core::{DType, Operand, RawBuffer};

use crate::kernels::conv::store_run;
use crate::kernels::shared::block::base;
use crate::kernels::shared::fault::{Result, try_parallel_for};
use crate::kernels::shared::parallel::{Parallel, SendPtr};
use crate::kernels::shared::simd::vectorized;
use crate::kernels::shared::walk::Walk;
use matrix::{Matrix, OperandPair, Stack};
use micro_kernel::WIDTH;

/// Rows and columns of a tile of the result.
pub(super) const TILE_ROWS: usize = 256;
pub(super) const TILE_COLUMNS: usize = 256;

/// Tiles that are too few for several threads.
const FEW_TILES: usize = 4;

/// Multiplications that take about as long as one element of simple work.
pub(super) const PRODUCTS_PER_ELEMENT: usize = 64;

const DST: usize = 0;
const A_SCALE: usize = 5;
const B_SCALE: usize = 6;
const BIAS: usize = 7;
const RESIDUAL: usize = 8;
const OPERANDS: usize = 9;

/// `extras` say how sums are rescaled; without them the sums are the result.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn matmul_integer(
    dst: &Operand<RawBuffer>,
    [a, b]: [&Operand<RawBuffer>; 2],
    [a_zero, b_zero]: [Option<&Operand<RawBuffer>>; 2],
    extras: Option<&RescaleOperands<'_>>,
    parallel: &dyn Parallel,
) -> Result {
    if dst.layout.is_empty() {
        return Ok(());
    }
    let scale = |which: usize| extras.map_or(dst, |extras| extras.scales[which]);
    let added = extras.map_or([None; 2], |extras| [extras.bias, extras.residual]);
    // Of what is absent nothing is read; something else stands in for its strides.
    let operands = [
        dst,
        a,
        b,
        a_zero.unwrap_or(a),
        b_zero.unwrap_or(b),
        scale(0),
        scale(1),
        added[0].unwrap_or(dst),
        added[1].unwrap_or(dst),
    ];
    let leading = dst.layout.rank() - 2;
    let batch = Walk::over(operands.map(|operand| &operand.layout), 0..leading);
    let each = dst.layout.shape()[leading];
    let of_columns = [(2, true), (4, b_zero.is_some()), (B_SCALE, extras.is_some())];
    // Products with the same rhs are one whose rows lie one below the other: the rhs is packed once for all of them.
    let mut axes = batch.axes();
    let stacked = match (axes.next(), axes.next()) {
        (Some((count, apart)), None) if count > 1 => {
            let same = of_columns.iter().all(|&(operand, given)| !given || apart[operand] == 0);
            same.then_some(apart)
        }
        _ => None,
    };
    let product = Product {
        stacked: stacked.map(|apart| (each, apart)),
        batch,
        strides: operands.map(|operand| {
            let strides = operand.layout.strides();
            [strides[leading], strides[leading + 1]]
        }),
        // SAFETY: passed on; an operand of bytes may be read as `u8`.
        bytes: unsafe {
            [a, b, operands[3], operands[4]].map(|operand| SendPtr::new(base::<u8>(operand)))
        },
        has_zero: [a_zero.is_some(), b_zero.is_some()],
        signed: [a.layout.dtype(), b.layout.dtype()].map(matrix::is_signed),
        rows: if stacked.is_some() { each * batch.elements() } else { each },
        columns: dst.layout.shape()[leading + 1],
        k: a.layout.shape()[leading + 1],
    };
    // SAFETY: passed on; the types are those of the operands.
    unsafe {
        match extras {
            None => product.sums(dst, parallel),
            Some(extras) => {
                with_rescaled!(dst.layout.dtype(), T => product.rescaled::<T>(dst, extras, parallel))
            }
        }
    }
}

/// Columns of a tile, which are about as many in all tiles. Few tiles are made smaller, so that several threads have about
/// as much to do each.
fn columns_of_a_tile(columns: usize, rows_of_tiles: usize) -> usize {
    let few = FEW_TILES.div_ceil(rows_of_tiles.max(1)).min(columns.div_ceil(WIDTH));
    let across = columns.div_ceil(TILE_COLUMNS).max(few);
    columns.div_ceil(across.max(1)).next_multiple_of(WIDTH)
}

/// A product, with the operands in the order of the constants above: output, lhs, rhs, zero points, scales, and
/// what is added.
struct Product {
    batch: Walk<OPERANDS>,
    strides: [[usize; 2]; OPERANDS],
    /// Operands and zero points.
    bytes: [SendPtr<u8>; 4],
    has_zero: [bool; 2],
    signed: [bool; 2],
    /// Where all products of the batch are one: the rows of each, and how far apart those of each operand are.
    stacked: Option<(usize, [usize; OPERANDS])>,
    rows: usize,
    columns: usize,
    k: usize,
}

/// Where a tile lies.
#[derive(Clone, Copy)]
struct TileOrigin {
    /// Which product of the batch.
    product: usize,
    row: usize,
    column: usize,
}

impl Product {
    /// Where an element lies, from the first of its operand.
    fn at(&self, operand: usize, product: usize, row: usize, column: usize) -> usize {
        let [down, along] = self.strides[operand];
        let (above, row) = match &self.stacked {
            None => (self.batch.position(operand, product), row),
            Some((each, apart)) => (row / each * apart[operand], row % each),
        };
        above + row * down + column * along
    }

    /// How many products are computed one by one.
    fn products(&self) -> usize {
        if self.stacked.is_some() { 1 } else { self.batch.elements() }
    }

    /// The operands of a tile.
    fn pair(&self, origin: TileOrigin) -> OperandPair {
        let matrix = |operand: usize, row: usize, column: usize| {
            // The rows of the rhs are steps, which all products share.
            let of_rows = matches!(operand, 1 | 3);
            let stack = self.stacked.as_ref().filter(|_| of_rows);
            let stack = stack.map(|(each, apart)| {
                let apart = apart[operand];
                Stack { each: *each, apart, skipped: row }
            });
            let first_row = if stack.is_some() { 0 } else { row };
            Matrix {
                first: self.bytes[operand - 1],
                // Operands whose k is 0 have no elements, and may have any strides.
                start: match self.k {
                    0 if operand <= 2 => 0,
                    _ => self.at(operand, origin.product, first_row, column),
                },
                strides: self.strides[operand],
                stack,
            }
        };
        let [a_zero, b_zero] = self.has_zero;
        OperandPair {
            lhs: matrix(1, origin.row, 0),
            rhs: matrix(2, 0, origin.column),
            lhs_zero: a_zero.then(|| matrix(3, origin.row, 0)),
            rhs_zero: b_zero.then(|| matrix(4, 0, origin.column)),
            signed: self.signed,
        }
    }

    /// Shares the tiles between threads.
    fn each(
        &self,
        parallel: &dyn Parallel,
        body: impl Fn(TileOrigin, &Tile, &OperandPair) -> Result + Sync,
    ) -> Result {
        let &Product { rows, columns, k, .. } = self;
        let down = rows.div_ceil(TILE_ROWS);
        let most = columns_of_a_tile(columns, self.products() * down);
        let across = columns.div_ceil(most);
        let area = rows.min(TILE_ROWS) * columns.min(most);
        let work = area.saturating_mul(k) / PRODUCTS_PER_ELEMENT + area;
        try_parallel_for(parallel, self.products() * down * across, work, |range| {
            for index in range {
                let (product, index) = (index / (down * across), index % (down * across));
                let (row, column) = (index / across * TILE_ROWS, index % across * most);
                let origin = TileOrigin { product, row, column };
                let tile = Tile {
                    rows: TILE_ROWS.min(rows - row),
                    columns: most.min(columns - column),
                    k,
                };
                body(origin, &tile, &self.pair(origin))?;
            }
            Ok(())
        })
    }

    /// Stores the sums themselves.
    unsafe fn sums(&self, dst: &Operand<RawBuffer>, parallel: &dyn Parallel) -> Result {
        // SAFETY: passed on.
        let to = SendPtr::new(unsafe { base::<i32>(dst) });
        let along = self.strides[DST][1];
        self.each(parallel, |origin, tile, pair| {
            let start = |row| self.at(DST, origin.product, origin.row + row, origin.column);
            // SAFETY: tiles are disjoint parts of the output; the rest is passed on.
            unsafe {
                tile.compute(pair, |row, sums| {
                    store_run(to.get().add(start(row)), along, sums);
                })
            }
        })
    }

    /// Stores what is made of the sums.
    unsafe fn rescaled<T: RescaledElement>(
        &self,
        dst: &Operand<RawBuffer>,
        extras: &RescaleOperands<'_>,
        parallel: &dyn Parallel,
    ) -> Result {
        // SAFETY: passed on; the types are those of the operands.
        let (to, scales, sums_bias, added, dst_scale) = unsafe {
            let [sums_bias, bias] = extras.biases();
            let number = |operand| SendPtr::new(base::<T::Added>(operand));
            (
                SendPtr::new(base::<T>(dst)),
                extras.scales.map(|scale| SendPtr::new(base::<f32>(scale))),
                sums_bias.map(|bias| SendPtr::new(base::<i32>(bias))),
                [(bias.map(number), BIAS), (extras.residual.map(number), RESIDUAL)],
                extras.dst_scale(),
            )
        };
        self.each(parallel, |origin, tile, pair| {
            let at = |operand, row, column| self.at(operand, origin.product, row, column);
            // SAFETY: tiles are disjoint parts of the output; the rest is passed on.
            unsafe {
                let mut column_scales = [0.0; TILE_COLUMNS];
                let column_scales = &mut column_scales[..tile.columns];
                let (start, along) = (at(B_SCALE, 0, origin.column), self.strides[B_SCALE][1]);
                for (column, scale) in column_scales.iter_mut().enumerate() {
                    *scale = scales[1].get().add(start + column * along).read();
                }
                let mut values = [0.0; TILE_COLUMNS];
                tile.compute(pair, |row, sums| {
                    let row = origin.row + row;
                    if let Some(first) = sums_bias {
                        let bias = first.get().add(at(BIAS, row, origin.column));
                        add_to_sums(bias, self.strides[BIAS][1], sums);
                    }
                    let values = &mut values[..sums.len()];
                    let all = scales[0].get().add(at(A_SCALE, row, 0)).read();
                    let scales = Scales::Each(all, column_scales);
                    vectorized(Scale { sums, scales, to: &mut *values });
                    for (first, operand) in added {
                        if let Some(first) = first {
                            let first = first.get().add(at(operand, row, origin.column));
                            add(first.cast_const(), self.strides[operand][1], values);
                        }
                    }
                    let activation = extras.rescale.activation;
                    vectorized(Activate { activation, values: &mut *values });
                    let start = at(DST, row, origin.column);
                    T::make(values, dst_scale, |results| {
                        store_run::<T>(to.get().add(start), self.strides[DST][1], results);
                    });
                })
            }
        })
    }
}
