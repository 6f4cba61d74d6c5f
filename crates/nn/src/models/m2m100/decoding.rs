//! One call of the decoder, step by step.

use super::{M2M100, Memory};
use crate::bytes::filled;
use crate::layers::KeyValueCache;
use crate::{AttentionMask, Result, Tensor};

/// The state of a call: `beams` outputs for each of `batch` inputs.
pub struct Decoding<'a> {
    model: &'a M2M100,
    memory: Memory,
    caches: Vec<KeyValueCache>,
    batch: usize,
    beams: usize,
    steps: usize,
    /// For each beam and step, the beam in whose place its token was stored.
    history: Vec<Vec<usize>>,
}

impl<'a> Decoding<'a> {
    pub fn new(model: &'a M2M100, memory: Memory, beams: usize) -> Self {
        let batch = memory.batch;
        let caches = memory.layers.iter().map(|_| KeyValueCache::default()).collect();
        let history = vec![Vec::new(); batch * beams];
        Self { model, memory, caches, batch, beams, steps: 0, history }
    }

    /// Reorders beams: beam `i` of the next step continues `parents[i]`. Beams are numbered through all inputs, and
    /// stay with their input.
    pub fn reorder(&mut self, parents: &[usize]) {
        self.history = parents.iter().map(|&parent| self.history[parent].clone()).collect();
    }

    /// Takes the next token of every output. Returns the states from which the following tokens are predicted:
    /// `[batch, beams, d_model]`.
    pub fn step(&mut self, tokens: &[u32]) -> Result<Tensor> {
        let shape = [self.batch, self.beams];
        let mut hidden = self.model.embeddings.step(tokens, self.steps, &shape)?;
        for (index, beams) in self.history.iter_mut().enumerate() {
            beams.push(index % self.beams);
        }
        self.steps += 1;
        let mask = AttentionMask::of_seen(self.seen()?);
        let layers =
            self.model.decoder.layers().iter().zip(&self.memory.layers).zip(&mut self.caches);
        for ((layer, memory), cache) in layers {
            let seen = &self.memory.mask;
            hidden = layer.forward_remembered(&hidden, Some(cache), &mask, memory, seen)?;
        }
        Ok(hidden)
    }

    /// Which keys each beam sees, of those of all beams of its input.
    fn seen(&self) -> Result<Option<Tensor>> {
        if self.beams == 1 {
            return Ok(None);
        }
        let keys = self.steps * self.beams;
        let mut seen = filled(false, self.history.len(), keys)?;
        for (row, beams) in seen.chunks_exact_mut(keys).zip(&self.history) {
            beams.iter().enumerate().for_each(|(step, &beam)| row[step * self.beams + beam] = true);
        }
        let shape = [self.batch, 1, self.beams, keys];
        Tensor::from_slice(&seen, &shape, &self.model.embeddings.device()).map(Some)
    }
}
