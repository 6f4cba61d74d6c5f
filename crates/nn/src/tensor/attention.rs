//! Attention.

use millstream_core::{AttentionParams, Command, Op};

use super::record::{operands, some};
use super::{OpRecorder, Tensor};
use crate::{Error, Result};

impl Tensor {
    /// Scaled dot-product attention of queries (this tensor) `[batch, heads, queries, size]` to keys and
    /// values `[batch, heads, keys, size]`; keys and values may have fewer heads, each for an equal group
    /// of query heads.
    ///
    /// The mask broadcasts to `[batch, heads, queries, keys]`: `bool`, true where a key is seen, or added
    /// to the scores. `scale` is `1 / √size` unless given. With `causal` a query sees keys up to its own
    /// place, counted from the end of both. A query that sees no key gives zeros.
    ///
    /// The result has the shape `[batch, heads, queries, size]` and lies in memory as
    /// `[batch, queries, heads, size]`, so that heads are joined by a transpose and a reshape without a
    /// copy.
    ///
    /// # Errors
    ///
    /// Shapes or types that do not fit, or no memory.
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
        // Heads lie beside each other, so that joining them is no copy.
        let order = [0, 2, 1, 3];
        let joined = recorder.output(made[0].dtype(), &order.map(|axis| made[0].shape()[axis]))?;
        let layout = joined.layout.transpose(1, 2);
        let result = joined.viewed(layout.map_err(|error| Error::named("attention", error))?);
        recorder.record(Command::new(op, [result.operand()], operands(&inputs)))?;
        Ok(result)
    }
}
