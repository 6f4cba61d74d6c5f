//! The largest and smallest elements.

use super::check::Check;
use super::{BufferLike, Command, Op, Operand};
use crate::{DType, Result};

impl<B: BufferLike> Command<B> {
    /// The largest or smallest elements along an axis, as many as the outputs have there, and their
    /// places. NaN counts as the largest number; of equal elements the one with the lower index comes
    /// first. `sorted` gives them from the best on, else they are in the order of their indices.
    ///
    /// # Errors
    ///
    /// `bool`, `indices` that are not `i64`, an axis that does not exist, more elements asked for than
    /// there are, types or shapes that do not match, or operands that do not fit their buffers or
    /// overlap.
    pub fn top_k(
        values: Operand<B>,
        indices: Operand<B>,
        src: Operand<B>,
        axis: usize,
        largest: bool,
        sorted: bool,
    ) -> Result<Self> {
        let check = Check("top_k");
        check.number(&src.layout)?;
        check.same_dtype(&values.layout, &src.layout)?;
        check.dtype(&indices.layout, DType::I64)?;
        check.axis(axis, &src.layout)?;
        let (from, to) = (src.layout.shape(), values.layout.shape());
        let fits = to.len() == from.len()
            && to
                .iter()
                .zip(from)
                .enumerate()
                .all(|(other, (to, from))| if other == axis { to <= from } else { to == from });
        check.that(fits, || format!("output {to:?} for input {from:?} along axis {axis}"))?;
        check.same_shape(&indices.layout, &values.layout)?;
        let op = Op::TopK { axis: axis as u8, largest, sorted };
        Self::assemble(op, [values, indices], [src])
    }
}
