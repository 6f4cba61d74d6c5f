//! Chains of cheap functions of `f32`, with results that never leave the registers of the CPU.
//!
//! A step on a tile reads and writes the first-level cache, which takes longer than the sum or product itself.
//! Here a short strip of elements goes through all steps before the next one is begun. It lies in an accumulator
//! of some vectors; one more value and one mask can be kept beside it, others are stored. The opcode of each step is
//! looked up once per strip, which costs little, since the steps of all strips are the same.

mod compile;
#[cfg(target_arch = "x86_64")]
mod interpret;

#[cfg(test)]
mod tests;

use millstream_core::MAX_CHAIN_INPUTS;

use crate::kernels::shared::simd::Isa;
pub(super) use compile::Program;

/// What is done to the accumulator `a`, with another operand `b`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Opcode {
    /// `b`.
    Load,
    /// Keeps `a` beside the accumulator.
    Keep,
    /// Stores `a` in a slot.
    Store,
    Add,
    Sub,
    Mul,
    Div,
    Max,
    Min,
    Relu,
    Neg,
    Abs,
    Square,
    Sqrt,
    Reciprocal,
    /// By `low` and `high`.
    Clip,
    /// `low · a` below zero.
    LeakyRelu,
    /// `low · a + high`, limited to 0 and 1.
    HardSigmoid,
    HardSwish,
    /// Makes the mask, and leaves the accumulator.
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    /// Makes the mask of an input of truth values.
    Mask,
    /// `a` where the mask holds, else `b`.
    Choose,
}

/// Where `b` is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Location {
    /// There is none, or it is `a` itself.
    Accumulator,
    /// Beside the accumulator.
    Kept,
    /// An input.
    Input(u8),
    /// A strip that was stored.
    Slot(u8),
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Instruction {
    opcode: Opcode,
    location: Location,
    /// `a` and `b` are swapped.
    swapped: bool,
    low: f32,
    high: f32,
}

/// Where an input lies.
#[derive(Clone, Copy)]
pub(super) struct Source {
    /// The first element of a tile.
    pub first: *const u8,
    /// How far it moves with each element: 1, or 0 where one element stands for all.
    pub step: usize,
}

/// Where the inputs of a tile lie, and the slots one after another.
pub(super) struct Sources {
    pub inputs: [Source; MAX_CHAIN_INPUTS],
    pub slots: *mut f32,
}

/// Elements of a slot: those of the longest strip.
pub(super) const SLOT: usize = 128;

/// Elements of a strip on this CPU, where there is a way to run them.
pub(super) fn length() -> Option<usize> {
    match Isa::detect() {
        Isa::Portable => None,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => Some(interpret::avx2::STRIP),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => Some(interpret::avx512::STRIP),
    }
}

/// Runs a program on `len` elements, a multiple of [`length`], and writes them to `to`.
///
/// # Safety
///
/// Inputs are valid for so many elements, or for one where it stands for all, and initialized; each slot of the
/// program has room for [`SLOT`] elements; `to` is valid for so many elements, and overlaps none of them.
pub(super) unsafe fn run(program: &Program, sources: &Sources, to: *mut f32, len: usize) {
    match Isa::detect() {
        Isa::Portable => unreachable!("{len} elements in strips, which this ISA does not have"),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: passed on; the ISA was detected.
        Isa::Avx2 => unsafe { interpret::avx2::run(program, sources, to, len) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: passed on; the ISA was detected.
        Isa::Avx512 => unsafe { interpret::avx512::run(program, sources, to, len) },
    }
}
