//! Functions of one number.
//!
//! The hot functions of `f32` use only additions, multiplications, fused multiply-adds and selections, so that
//! loops over them are vectorized. A vector lane and the remainder of a loop compute the same bits. CPUs from
//! before 2013 have no fused multiply-add: there each is a call, which is slow and gives the same bits. All other
//! functions, and those of `f64`, are from the standard library.

mod erf;
mod exp_nonpositive;
mod exponential;
mod float;
pub(crate) mod functions;
mod sine;

pub(crate) use float::Float;

/// `a` where the condition holds, else `b`, without a branch: the compiler would rather jump over the
/// longer of two computations than compute both, which is what a vector needs.
#[inline(always)]
fn select(condition: bool, a: f32, b: f32) -> f32 {
    let mask = u32::from(condition).wrapping_neg();
    f32::from_bits(a.to_bits() & mask | b.to_bits() & !mask)
}
