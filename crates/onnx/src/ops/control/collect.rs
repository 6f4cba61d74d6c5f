//! Results that a loop makes part by part.

use millstream_graph::{Array, HostCall, HostValue};
use millstream_nn::Tensor;

use super::super::common::refusal;
use super::unroll::{Along, empty_shape, place};
use crate::Result;

/// So many parts are joined at a time: many small pieces of memory take more than one large one.
const TOGETHER: usize = 64;

/// Parts of a result, in the order in which they were made.
#[derive(Debug)]
pub(super) struct Collected {
    along: Along,
    /// Joined parts.
    pieces: Vec<Tensor>,
    /// Parts that are not joined yet, each with the new axis.
    parts: Vec<Tensor>,
}

impl Collected {
    pub fn new(along: Along) -> Self {
        Self { along, pieces: Vec::new(), parts: Vec::new() }
    }

    /// What one iteration made.
    pub fn push(&mut self, part: Tensor) -> Result<()> {
        let axis = place(self.along.axis, part.rank() + 1)?;
        let part = part.unsqueeze(axis)?;
        self.parts.push(part);
        if self.parts.len() >= TOGETHER {
            self.join()?;
        }
        Ok(())
    }

    /// What several iterations made, joined.
    pub fn push_piece(&mut self, piece: Tensor) -> Result<()> {
        self.join()?;
        self.pieces.push(piece);
        Ok(())
    }

    fn join(&mut self) -> Result<()> {
        if !self.parts.is_empty() {
            let parts = std::mem::take(&mut self.parts);
            self.pieces.push(joined(parts, self.along)?);
        }
        Ok(())
    }

    /// All parts together; `declared` is what a part is declared to be.
    pub fn finish(
        mut self,
        call: &HostCall<'_>,
        declared: &millstream_graph::ValueType,
    ) -> Result<HostValue> {
        self.join()?;
        if self.pieces.is_empty() {
            let (dtype, shape) = empty_shape(self.along, declared)?;
            return Ok(Array::new(dtype, &shape, Vec::new())?.into());
        }
        let whole = joined(self.pieces, self.along)?;
        let (bytes, limit) = (whole.layout().dense_bytes(), call.limits().tensor_bytes);
        if bytes > limit {
            return Err(refusal(format!("a result of {bytes} bytes; a tensor may have {limit}")));
        }
        Ok(whole.into())
    }
}

/// Tensors one behind the other.
fn joined(mut parts: Vec<Tensor>, along: Along) -> Result<Tensor> {
    if along.backwards {
        parts.reverse();
    }
    match &parts[..] {
        [one] => Ok(one.clone()),
        many => {
            let axis = place(along.axis, many.first().map_or(0, Tensor::rank))?;
            Tensor::cat(many, axis)
        }
    }
}
