//! Keys and values of the tokens so far.

use millstream_core::Command;

use crate::models::blocks::{attend, heads};
use crate::tensor::OpRecorder;
use crate::{Result, Tensor};

/// Steps that a cache has room for at first; when it is full it doubles.
const FIRST_STEPS: usize = 16;

/// The keys and values of one layer.
///
/// All beams of an input have their keys in one sequence, step by step, and a mask says which of them a beam
/// sees. So nothing moves when beams change places, and the beams of an input are queries of one attention.
///
/// Memory is written here behind the filled part only, which nobody has seen yet.
#[derive(Default)]
pub struct Cache {
    /// `[batch, room, 2 · size]`, of which `filled` tokens are there.
    storage: Option<Tensor>,
    filled: usize,
}

impl Cache {
    /// Adds the tokens of one step, given as query, key and value side by side, `[batch, beams, 3 · size]`,
    /// and attends to all so far.
    pub fn attend(
        &mut self,
        product: &Tensor,
        size: usize,
        count: usize,
        seen: Option<&Tensor>,
    ) -> Result<Tensor> {
        let &[batch, beams, _] = product.shape() else {
            return crate::error::invalid("attention", format!("shape {:?}", product.shape()));
        };
        let storage = self.with_room(product, [batch, beams, 2 * size])?;
        let recorder = OpRecorder::new("cache", &product.device())?;
        let place = storage.narrow(1, self.filled, beams)?;
        let added = product.narrow(2, size, 2 * size)?;
        recorder.record(Command::copy(place.operand(), added.operand()))?;
        self.filled += beams;
        let there = storage.narrow(1, 0, self.filled)?;
        let query = heads(product, 0, size, count)?;
        let [key, value] = [0, 1].map(|part| heads(&there, part, size, count));
        attend([&query, &key?, &value?], seen, false)
    }

    /// The storage, with room for another step.
    fn with_room(&mut self, like: &Tensor, [batch, beams, size]: [usize; 3]) -> Result<Tensor> {
        let room = self.storage.as_ref().map_or(0, |storage| storage.shape()[1]);
        if let Some(storage) = self.storage.as_ref().filter(|_| self.filled + beams <= room) {
            return Ok(storage.clone());
        }
        let recorder = OpRecorder::new("cache", &like.device())?;
        let room = (room * 2).max(FIRST_STEPS * beams);
        let larger = recorder.output(like.dtype(), &[batch, room, size])?;
        if let Some(old) = self.storage.take() {
            let kept = old.narrow(1, 0, self.filled)?;
            let place = larger.narrow(1, 0, self.filled)?;
            recorder.record(Command::copy(place.operand(), kept.operand()))?;
        }
        self.storage = Some(larger.clone());
        Ok(larger)
    }
}
