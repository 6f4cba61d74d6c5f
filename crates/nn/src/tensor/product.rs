//! Matrix products.

use millstream_core::{Epilogue, Op};

use super::{OpRecorder, Tensor};
use crate::Result;

impl Tensor {
    /// The matrix product over the last two axes; leading axes broadcast. A tensor of rank 1 is a row on
    /// the left and a column on the right; the result does not have that axis.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[[1.0f32, 2.0], [3.0, 4.0]], &Device::cpu()?)?;
    /// assert_eq!(a.matmul(&a)?.to_vec2::<f32>()?, [[7.0, 10.0], [15.0, 22.0]]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Sizes that do not match, types that differ or are not floating point, or no memory.
    #[doc(alias = "mm")]
    #[doc(alias = "bmm")]
    #[doc(alias = "dot")]
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
