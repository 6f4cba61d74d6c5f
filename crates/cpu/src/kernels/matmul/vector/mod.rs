//! The vector registers that micro-tiles are made of.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::kernels::shared::number::Float;

pub(in crate::kernels) use portable::Array;

/// Some numbers that are computed with in one instruction.
///
/// # Safety of all methods
///
/// The code that a call is inlined into is compiled for an ISA that has the registers, and runs
/// on one; pointers are valid for [`LANES`](Self::LANES) elements.
pub(in crate::kernels) trait Vector: Copy {
    /// What it holds.
    type Number: Float;

    /// How many numbers it holds.
    const LANES: usize;

    unsafe fn splat(number: Self::Number) -> Self;

    unsafe fn load(from: *const Self::Number) -> Self;

    unsafe fn store(self, to: *mut Self::Number);

    /// `self + lhs · rhs`, in one rounding where the CPU has an instruction for it.
    ///
    /// Every loop of a product uses this one, so all paths of an ISA give the same bits.
    unsafe fn add_product(self, lhs: Self, rhs: Self) -> Self;

    /// Asks for the line of an address, which need not be valid.
    #[inline(always)]
    fn prefetch<T>(_: *const T) {}
}

/// Registers that elements of type `T` are loaded into.
pub(in crate::kernels) trait Widen<T>: Vector {
    /// Loads elements and converts them to numbers.
    ///
    /// # Safety
    ///
    /// As for [`Vector`].
    unsafe fn widen(from: *const T) -> Self;
}
