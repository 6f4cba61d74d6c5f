//! Conversion of callers' numbers to the integer types of an [`Op`](super::Op).

use crate::{Error, Result};

/// An axis or a number of axes. Numbers that do not fit become 255, which no operand has.
pub(super) fn small(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// A number that an [`Op`](super::Op) stores in 32 bits.
pub(super) fn narrow(op: &'static str, operand: &'static str, number: usize) -> Result<u32> {
    u32::try_from(number).map_err(|_| Error::Mismatch {
        op,
        operand,
        expected: format!("at most {}", u32::MAX),
        found: number.to_string(),
    })
}
