//! Factors that lie in memory as matrices.

use millstream_core::DType;

use super::block::{Factors, Zeros};
use crate::kernels::shared::parallel::Shared;

pub(super) fn is_signed(dtype: DType) -> bool {
    dtype == DType::I8
}

/// A matrix of bytes; strides are of rows and columns.
#[derive(Clone, Copy)]
pub(super) struct Matrix {
    pub first: Shared<u8>,
    /// Where the first element lies. A matrix without elements has no pointer to it.
    pub start: usize,
    pub strides: [usize; 2],
}

impl Matrix {
    /// # Safety
    ///
    /// The element belongs to the matrix.
    unsafe fn at(&self, row: usize, column: usize) -> *const u8 {
        let place = self.start + row * self.strides[0] + column * self.strides[1];
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

/// The factors of one block of a product.
pub(super) struct Pair {
    pub left: Matrix,
    pub right: Matrix,
    pub left_zero: Option<Matrix>,
    pub right_zero: Option<Matrix>,
    pub signed: [bool; 2],
}

impl Factors for Pair {
    fn signed(&self) -> [bool; 2] {
        self.signed
    }

    unsafe fn left(&self, row: usize, first: usize, to: &mut [u8]) {
        // SAFETY: passed on.
        unsafe { self.left.copy(row, first, to) }
    }

    unsafe fn right(&self, step: usize, to: &mut [u8]) {
        // SAFETY: passed on.
        unsafe { self.right.copy(step, 0, to) }
    }

    unsafe fn zeros(&self, zeros: Zeros<'_>) {
        let [left_signed, right_signed] = self.signed;
        for (row, to) in zeros.left.iter_mut().enumerate() {
            // SAFETY: passed on.
            *to = self.left_zero.map_or(0, |zero| unsafe { number(left_signed, zero.at(row, 0)) });
        }
        for (column, to) in zeros.right.iter_mut().enumerate() {
            *to = self
                .right_zero
                // SAFETY: passed on.
                .map_or(0, |zero| unsafe { number(right_signed, zero.at(0, column)) });
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
