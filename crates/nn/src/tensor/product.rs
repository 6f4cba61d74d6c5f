//! Matrix products.

use millstream_core::{Activation, Command, broadcast_shapes};

use super::{Recorder, Tensor};
use crate::Result;
use crate::error::invalid;

impl Tensor {
    /// The matrix product over the last two axes; leading axes broadcast. A tensor of rank 1 is a row on
    /// the left and a column on the right, and that axis vanishes.
    ///
    /// # Errors
    ///
    /// Sizes that do not match, types that differ or are not floating point, or no memory.
    pub fn matmul(&self, other: &Tensor) -> Result<Self> {
        let (row, column) = (self.rank() == 1, other.rank() == 1);
        let left = if row { self.unsqueeze(0)? } else { self.clone() };
        let right = if column { other.unsqueeze(1)? } else { other.clone() };
        let Some(shape) = product_shape(left.shape(), right.shape()) else {
            let (left, right) = (self.shape(), other.shape());
            return invalid("matmul", format!("shapes {left:?} and {right:?} do not match"));
        };
        let recorder = Recorder::new("matmul", &self.device())?;
        let mut result = recorder.output(self.dtype(), &shape)?;
        recorder.record(Command::matmul(
            result.operand(),
            left.operand(),
            right.operand(),
            None,
            None,
            1.0,
            Activation::None,
        ))?;
        if row {
            result = result.squeeze(-2)?;
        }
        if column { result.squeeze(-1) } else { Ok(result) }
    }
}

fn product_shape(left: &[usize], right: &[usize]) -> Option<Vec<usize>> {
    let ([a @ .., rows, inner], [b @ .., same_inner, columns]) = (left, right) else { return None };
    let leading = broadcast_shapes(a, b).ok().filter(|_| inner == same_inner)?;
    Some(leading.into_iter().chain([*rows, *columns]).collect())
}
