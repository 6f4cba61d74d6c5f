//! Matrix products.

use millstream_core::{Epilogue, Op};

use super::{OpRecorder, Tensor};
use crate::Result;

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
        let op = Op::MatMul { epilogue: Epilogue::default() };
        let mut result = OpRecorder::new("matmul", &self.device())?.apply(op, &[&left, &right])?;
        if row {
            result = result.squeeze(-2)?;
        }
        if column { result.squeeze(-1) } else { Ok(result) }
    }
}
