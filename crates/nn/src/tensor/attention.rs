//! Attention.

use millstream_core::{Command, Layout};

use super::{Recorder, Tensor};
use crate::error::invalid;
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
        let (&[batch, heads, queries, size], &[.., value_size]) = (self.shape(), value.shape())
        else {
            let (query, key, value) = (self.shape(), key.shape(), value.shape());
            return invalid(
                "attention",
                format!("query {query:?}, key {key:?} and value {value:?} need 4 axes"),
            );
        };
        let recorder = Recorder::new("attention", &self.device())?;
        let joined = recorder.output(self.dtype(), &[batch, queries, heads, value_size])?;
        let layout: Result<Layout, _> = joined.layout.transpose(1, 2);
        let result = joined.viewed(layout.map_err(|error| Error::named("attention", error))?);
        recorder.record(Command::attention(
            result.operand(),
            self.operand(),
            key.operand(),
            value.operand(),
            mask.map(Tensor::operand),
            scale.unwrap_or(1.0 / (size.max(1) as f32).sqrt()),
            causal,
        ))?;
        Ok(result)
    }
}
