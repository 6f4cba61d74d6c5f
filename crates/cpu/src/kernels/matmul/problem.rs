//! What is multiplied: pointers, sizes and strides.

use std::ops::Range;

use millstream_core::{Epilogue, Operand, RawBuffer};

use crate::kernels::shared::block::base;
use crate::kernels::shared::number::Stored;
use crate::kernels::shared::parallel::SendPtr;
use crate::kernels::shared::walk::Walk;

/// A matrix in memory; strides count elements.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<T> {
    first: SendPtr<T>,
    row_stride: usize,
    column_stride: usize,
}

impl<T: Copy> Matrix<T> {
    /// The matrix of the last two axes of an operand, of which the first is `axis`.
    ///
    /// # Safety
    ///
    /// As for [`base`].
    pub unsafe fn of(operand: &Operand<RawBuffer>, axis: usize) -> Self {
        Matrix {
            // SAFETY: passed on.
            first: SendPtr::new(unsafe { base::<T>(operand) }),
            row_stride: operand.layout.strides()[axis],
            column_stride: operand.layout.strides()[axis + 1],
        }
    }

    /// The address of an element.
    ///
    /// # Safety
    ///
    /// The element is inside the buffer.
    #[inline(always)]
    pub unsafe fn at(&self, row: usize, column: usize) -> *mut T {
        // SAFETY: passed on.
        unsafe { self.first.get().add(row * self.row_stride + column * self.column_stride) }
    }

    pub fn row_stride(&self) -> usize {
        self.row_stride
    }

    pub fn column_stride(&self) -> usize {
        self.column_stride
    }

    /// The matrix without its first rows.
    ///
    /// # Safety
    ///
    /// It has a row more than that.
    pub unsafe fn below(self, rows: usize) -> Self {
        // SAFETY: passed on.
        unsafe { self.moved(rows * self.row_stride) }
    }

    unsafe fn moved(self, count: usize) -> Self {
        // SAFETY: passed on.
        Matrix { first: SendPtr::new(unsafe { self.first.get().add(count) }), ..self }
    }
}

/// Arrays of five hold output, lhs, rhs, bias and residual.
const LHS: usize = 1;
const RHS: usize = 2;

/// A batch of products of one size. It is not empty, but k may be 0.
pub(super) struct Problem<'a, T> {
    pub rows: usize,
    pub columns: usize,
    pub k: usize,
    epilogue: &'a Epilogue,
    /// Where the matrices of each product of the batch begin.
    batch: Walk<5>,
    /// The matrices of the first product.
    matrices: [Matrix<T>; 5],
}

/// One tile of one product, with all that takes part in it.
pub(crate) struct Tile<'a, T> {
    pub rows: usize,
    pub columns: usize,
    pub k: usize,
    /// Elements of the rhs of the whole product.
    pub rhs_elements: usize,
    pub epilogue: &'a Epilogue,
    /// The tile of the output.
    pub dst: Matrix<T>,
    /// The rows of the lhs that belong to the tile.
    pub lhs: Matrix<T>,
    /// The columns of the rhs that belong to the tile.
    pub rhs: Matrix<T>,
    /// The tile of the bias, where there is one.
    pub bias: Option<Matrix<T>>,
    /// The tile of the residual, where there is one.
    pub residual: Option<Matrix<T>>,
}

impl<'a, T: Stored> Problem<'a, T> {
    /// # Safety
    ///
    /// As for [`execute`](crate::kernels::execute); the operands have the type `T`, and the output is
    /// not empty.
    pub unsafe fn new(
        epilogue: &'a Epilogue,
        dst: &Operand<RawBuffer>,
        [lhs, rhs]: [&Operand<RawBuffer>; 2],
        bias: Option<&Operand<RawBuffer>>,
        residual: Option<&Operand<RawBuffer>>,
    ) -> Self {
        // An operand that is absent is never read; the output stands in for its strides.
        let operands = [dst, lhs, rhs, bias.unwrap_or(dst), residual.unwrap_or(dst)];
        let layouts = operands.map(|operand| &operand.layout);
        let leading = dst.layout.rank() - 2;
        // SAFETY: passed on.
        let mut matrices = operands.map(|operand| unsafe { Matrix::<T>::of(operand, leading) });
        let mut rows = dst.layout.shape()[leading];
        let mut batch_axes = leading;
        // Products that share the rhs and follow each other in memory are one product with
        // more rows: its rhs is packed once.
        while batch_axes > 0 {
            let axis = batch_axes - 1;
            let size = dst.layout.shape()[axis];
            let strides = layouts.map(|layout| layout.strides()[axis]);
            let joins = size == 1
                || (strides[RHS] == 0
                    && (0..5).filter(|&operand| operand != RHS).all(|operand| {
                        rows == 1
                            || rows.checked_mul(matrices[operand].row_stride)
                                == Some(strides[operand])
                    }));
            if !joins {
                break;
            }
            for operand in (0..5).filter(|&operand| operand != RHS && size > 1) {
                if rows == 1 {
                    matrices[operand].row_stride = strides[operand];
                }
            }
            rows *= size;
            batch_axes -= 1;
        }
        Problem {
            rows,
            columns: dst.layout.shape()[leading + 1],
            k: lhs.layout.shape()[leading + 1],
            epilogue,
            batch: Walk::over(layouts, 0..batch_axes),
            matrices,
        }
    }

    /// The number of products.
    pub fn batches(&self) -> usize {
        self.batch.elements()
    }

    /// Whether the rows of the rhs are dense.
    pub fn rhs_is_dense(&self) -> bool {
        self.matrices[RHS].column_stride == 1
    }

    /// The tile of some rows and columns of a product of the batch.
    pub fn tile(&self, batch: usize, rows: Range<usize>, columns: Range<usize>) -> Tile<'a, T> {
        let (row, column) = (rows.start, columns.start);
        let places = [(row, column), (row, 0), (0, column), (row, column), (row, column)];
        let matrix = |operand: usize| {
            let matrix = self.matrices[operand];
            if self.k == 0 && (LHS..=RHS).contains(&operand) {
                // Such operands have no elements that a pointer could go to.
                return matrix;
            }
            let (row, column) = places[operand];
            let start = self.batch.position(operand, batch)
                + row * matrix.row_stride
                + column * matrix.column_stride;
            // SAFETY: the first element of the tile belongs to the operand.
            unsafe { matrix.moved(start) }
        };
        Tile {
            rows: rows.len(),
            columns: columns.len(),
            k: self.k,
            rhs_elements: self.columns.saturating_mul(self.k),
            epilogue: self.epilogue,
            dst: matrix(0),
            lhs: matrix(LHS),
            rhs: matrix(RHS),
            bias: self.epilogue.bias.then(|| matrix(3)),
            residual: self.epilogue.residual.then(|| matrix(4)),
        }
    }
}
