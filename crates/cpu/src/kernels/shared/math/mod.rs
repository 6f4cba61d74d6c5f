//! Functions of one number.
//!
//! The hot functions of `f32` are written here with additions, multiplications, fused ones of both, and
//! selections only, so that loops over them are vectorized; a vector lane and the remainder of a loop
//! compute the same bits. Machines of before 2013 have no instruction for fused operations: there each
//! is a call, which is slow and gives the same bits. The others, and those of `f64`, are those of the
//! standard library.

mod erf;
mod exp_nonpositive;
mod exponential;
mod float;
pub(crate) mod functions;

pub(crate) use float::Float;

/// `a` where the condition holds, else `b`, without a branch: the compiler would rather jump over the
/// longer of two computations than compute both, which is what a vector needs.
#[inline(always)]
fn select(condition: bool, a: f32, b: f32) -> f32 {
    let mask = u32::from(condition).wrapping_neg();
    f32::from_bits(a.to_bits() & mask | b.to_bits() & !mask)
}
