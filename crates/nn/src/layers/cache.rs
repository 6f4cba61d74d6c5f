//! Keys and values of the tokens so far.

use millstream_core::Command;

use crate::error::invalid;
use crate::tensor::OpRecorder;
use crate::{Result, Tensor};

/// The steps that a new cache has room for. When it is full, it doubles.
const FIRST_STEPS: usize = 16;

/// The keys and values of one layer.
///
/// All beams of an input keep their keys in one sequence, step by step, and a mask says which of them a beam
/// sees. So nothing is copied when beams are reordered, and the beams of an input are queries of one attention.
///
/// Only memory after the filled part is written, which no tensor has read.
#[derive(Default)]
pub(crate) struct KeyValueCache {
    /// `[batch, room, 2 · size]`, of which `filled` tokens are there.
    storage: Option<Tensor>,
    filled: usize,
}

impl KeyValueCache {
    /// Adds the tokens of one step, given as query, key and value side by side, `[batch, beams, 3 · size]`. Returns the
    /// keys and values of all steps so far, side by side.
    pub fn extend(&mut self, product: &Tensor, size: usize) -> Result<Tensor> {
        let &[batch, beams, _] = product.shape() else {
            return invalid("attention", format!("shape {:?}", product.shape()));
        };
        let storage = self.with_room(product, [batch, beams, 2 * size])?;
        let recorder = OpRecorder::new("cache", &product.device())?;
        let place = storage.narrow(1, self.filled, beams)?;
        let added = product.narrow(2, size, 2 * size)?;
        recorder.record(Command::copy(place.operand(), added.operand()))?;
        self.filled += beams;
        storage.narrow(1, 0, self.filled)
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
