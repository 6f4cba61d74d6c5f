//! Numbers of callers in the sizes that an [`Op`](super::Op) has.

use crate::{Error, Result};

/// An axis or a number of axes. What is larger than that fits no operand, whatever it is.
pub(super) fn small(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// A number of which an [`Op`](super::Op) keeps 32 bits.
pub(super) fn narrow(op: &'static str, operand: &'static str, number: usize) -> Result<u32> {
    u32::try_from(number).map_err(|_| Error::Mismatch {
        op,
        operand,
        expected: format!("at most {}", u32::MAX),
        found: number.to_string(),
    })
}
