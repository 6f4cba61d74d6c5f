//! Attention.

use millstream_core::{AttentionParams, Command, Op};

use super::record::{operands, some};
use super::{OpRecorder, Tensor};
use crate::Result;
use crate::error::named;

impl Tensor {
    /// Scaled dot-product attention of queries (this tensor) `[batch, heads, queries, size]` to keys and values
    /// `[batch, heads, keys, size]`. Keys and values may have fewer heads; each then serves an equal group of query
    /// heads.
    ///
    /// The mask broadcasts to `[batch, heads, queries, keys]`. A `bool` mask is true where a key is seen; a mask of
    /// numbers is added to the scores. `scale` is `1 / √size` by default. With `causal`, the last query sees all
    /// keys, the one before it all but the last, and so on. A query that sees no key gives zeros.
    ///
    /// The result has the shape `[batch, heads, queries, size]`. In memory it is `[batch, queries, heads, size]`, so that
    /// `transpose(1, 2)` and a reshape join the heads without a copy.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let device = Device::cpu()?;
    /// let query = Tensor::randn(&[1, 2, 3, 8], 1, DType::F32, &device)?; // [batch, heads, queries, size]
    /// let key = Tensor::randn(&[1, 2, 5, 8], 2, DType::F32, &device)?;
    /// let value = Tensor::ones(&[1, 2, 5, 8], DType::F32, &device)?;
    /// assert_eq!(query.attention(&key, &value, None, None, false)?.shape(), [1, 2, 3, 8]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Shapes or types that do not fit, or no memory.
    #[doc(alias = "scaled_dot_product_attention")]
    #[doc(alias = "sdpa")]
    pub fn attention(
        &self,
        key: &Tensor,
        value: &Tensor,
        mask: Option<&Tensor>,
        scale: Option<f32>,
        causal: bool,
    ) -> Result<Self> {
        let size = self.shape().last().copied().unwrap_or(1).max(1);
        let scale = scale.unwrap_or(1.0 / (size as f32).sqrt());
        let params = AttentionParams {
            mask: mask.is_some(),
            ..AttentionParams::new(scale).causal_if(causal)
        };
        let (op, inputs) =
            (Op::Attention { params }, some([Some(self), Some(key), Some(value), mask]));
        let recorder = OpRecorder::new("attention", &self.device())?;
        let made = recorder.infer(&op, &inputs)?;
        // The heads of one query are neighbors in memory, so that joining them is no copy.
        let order = [0, 2, 1, 3];
        let joined = recorder.output(made[0].dtype(), &order.map(|axis| made[0].shape()[axis]))?;
        let layout = joined.layout.transpose(1, 2);
        let result = joined.viewed(layout.map_err(|error| named("attention", error))?);
        recorder.record(Command::new(op, [result.operand()], operands(&inputs)))?;
        Ok(result)
    }
}
