//! Views of parts of an axis, one after another.

use super::Tensor;
use crate::error::invalid;
use crate::{Axis, Result};

/// The most pieces of a split. An axis that is repeated by a stride of 0 can be longer than any list.
const MAX_PIECES: usize = 1 << 20;

impl Tensor {
    /// Pieces of at most `size` along an axis; the last may be smaller.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[1i64, 2, 3], &Device::cpu()?)?;
    /// let parts = a.split(2, 0)?;
    /// assert_eq!((parts[0].shape(), parts[1].shape()), (&[2][..], &[1][..]));
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An axis that does not exist, or a size of 0.
    pub fn split(&self, size: usize, axis: impl Axis) -> Result<Vec<Self>> {
        let axis = axis.resolve("split", self.rank())?;
        if size == 0 {
            return invalid("split", format!("shape {:?} in pieces of 0", self.shape()));
        }
        let total = self.shape()[axis];
        let pieces = total.div_ceil(size);
        if pieces > MAX_PIECES {
            let shape = self.shape();
            return invalid(
                "split",
                format!("shape {shape:?} in {pieces} pieces, above {MAX_PIECES}"),
            );
        }
        (0..total)
            .step_by(size)
            .map(|start| self.narrow(axis, start, size.min(total - start)))
            .collect()
    }

    /// At most `chunks` pieces of one size along an axis; the last may be smaller.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[1i64, 2, 3, 4], &Device::cpu()?)?;
    /// assert_eq!(a.chunk(2, 0)?[1].to_vec::<i64>()?, [3, 4]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An axis that does not exist, or no chunks.
    pub fn chunk(&self, chunks: usize, axis: impl Axis) -> Result<Vec<Self>> {
        let axis = axis.resolve("chunk", self.rank())?;
        if chunks == 0 {
            return invalid("chunk", format!("shape {:?} in 0 chunks", self.shape()));
        }
        self.split(self.shape()[axis].div_ceil(chunks).max(1), axis)
    }
}
