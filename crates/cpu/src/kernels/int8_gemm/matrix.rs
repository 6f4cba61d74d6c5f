//! Operands that lie in memory as matrices.

use millstream_core::DType;

use super::macro_kernel::{TileOperands, Zeros};
use crate::kernels::shared::parallel::SendPtr;

pub(super) fn is_signed(dtype: DType) -> bool {
    dtype == DType::I8
}

/// Rows of several matrices one below the other.
#[derive(Clone, Copy)]
pub(super) struct Stack {
    /// How many each has.
    pub each: usize,
    /// From the first element of one to that of the next.
    pub apart: usize,
    /// Rows before the first that is meant.
    pub skipped: usize,
}

/// A matrix of bytes; strides are of rows and columns.
#[derive(Clone, Copy)]
pub(super) struct Matrix {
    pub first: SendPtr<u8>,
    /// Where the first element lies. A matrix without elements has no pointer to it.
    pub start: usize,
    pub strides: [usize; 2],
    /// Where its rows are those of several.
    pub stack: Option<Stack>,
}

impl Matrix {
    /// # Safety
    ///
    /// The element belongs to the matrix.
    unsafe fn at(&self, row: usize, column: usize) -> *const u8 {
        let (above, row) = match self.stack {
            None => (0, row),
            Some(Stack { each, apart, skipped }) => {
                let row = skipped + row;
                (row / each * apart, row % each)
            }
        };
        let place = self.start + above + row * self.strides[0] + column * self.strides[1];
        // SAFETY: passed on.
        unsafe { self.first.get().cast_const().add(place) }
    }

    /// Copies a part of a row.
    ///
    /// # Safety
    ///
    /// The elements belong to the matrix, and nobody writes them.
    unsafe fn copy(&self, row: usize, column: usize, to: &mut [u8]) {
        if to.is_empty() {
            return;
        }
        // SAFETY: passed on.
        unsafe {
            let from = self.at(row, column);
            match self.strides[1] {
                1 => to.copy_from_slice(std::slice::from_raw_parts(from, to.len())),
                stride => {
                    for (i, to) in to.iter_mut().enumerate() {
                        *to = from.add(i * stride).read();
                    }
                }
            }
        }
    }
}

/// The operands of one tile of a product.
pub(super) struct OperandPair {
    pub lhs: Matrix,
    pub rhs: Matrix,
    pub lhs_zero: Option<Matrix>,
    pub rhs_zero: Option<Matrix>,
    pub signed: [bool; 2],
}

impl TileOperands for OperandPair {
    fn signed(&self) -> [bool; 2] {
        self.signed
    }

    unsafe fn lhs(&self, row: usize, first: usize, to: &mut [u8]) {
        // SAFETY: passed on.
        unsafe { self.lhs.copy(row, first, to) }
    }

    unsafe fn rhs(&self, step: usize, to: &mut [u8]) {
        // SAFETY: passed on.
        unsafe { self.rhs.copy(step, 0, to) }
    }

    unsafe fn zeros(&self, zeros: Zeros<'_>) {
        let [lhs_signed, rhs_signed] = self.signed;
        for (row, to) in zeros.lhs.iter_mut().enumerate() {
            // SAFETY: passed on.
            *to = self.lhs_zero.map_or(0, |zero| unsafe { number(lhs_signed, zero.at(row, 0)) });
        }
        for (column, to) in zeros.rhs.iter_mut().enumerate() {
            *to = self
                .rhs_zero
                // SAFETY: passed on.
                .map_or(0, |zero| unsafe { number(rhs_signed, zero.at(0, column)) });
        }
    }
}

/// # Safety
///
/// The byte may be read.
pub(crate) unsafe fn number(signed: bool, at: *const u8) -> i32 {
    // SAFETY: passed on.
    let byte = unsafe { at.read() };
    if signed { i32::from(byte as i8) } else { i32::from(byte) }
}
