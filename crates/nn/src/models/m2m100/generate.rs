//! Greedy and beam decoding.

use millstream_core::DType;

use super::beams::{Candidate, Search};
use super::decoding::Decoding;
use super::{GenerationOptions, M2M100, Memory};
use crate::{Module, Result, Tensor};

/// The most likely token at each step.
pub fn greedy(
    model: &M2M100,
    memory: Memory,
    options: &GenerationOptions,
) -> Result<Vec<Vec<u32>>> {
    let batch = memory.batch;
    let mut outputs = vec![vec![options.decoder_start_token_id]; batch];
    let mut done = vec![false; batch];
    let mut decoding = Decoding::new(model, memory, 1);
    let mut tokens = vec![options.decoder_start_token_id; batch];
    for place in 1..options.max_length {
        let hidden = decoding.step(&tokens)?;
        tokens = match options.forced(place) {
            Some(token) => vec![token; batch],
            None => {
                let best = model.logits_of(&hidden)?.argmax(-1, false)?.to_vec::<i64>()?;
                best.into_iter().map(|token| token as u32).collect()
            }
        };
        for ((output, done), &token) in outputs.iter_mut().zip(&mut done).zip(&tokens) {
            if !*done {
                output.push(token);
                *done = options.eos_token_ids.contains(&token);
            }
        }
        if done.iter().all(|&done| done) {
            break;
        }
    }
    Ok(outputs)
}

/// The outputs with the best scores that a beam search finds.
pub fn beam_search(
    model: &M2M100,
    memory: Memory,
    options: &GenerationOptions,
) -> Result<Vec<Vec<u32>>> {
    let (batch, beams) = (memory.batch, options.num_beams);
    let mut searches: Vec<Search> = (0..batch).map(|_| Search::new(options)).collect();
    let mut decoding = Decoding::new(model, memory, beams);
    for place in 1..options.max_length {
        let tokens: Vec<u32> = searches.iter().flat_map(Search::last_tokens).collect();
        let hidden = decoding.step(&tokens)?;
        let candidates = match options.forced(place) {
            Some(token) => searches.iter().map(|search| search.forced(token)).collect(),
            None => candidates(model, &hidden, &searches, Search::candidates(options))?,
        };
        let mut parents = Vec::with_capacity(batch * beams);
        for (index, (search, candidates)) in searches.iter_mut().zip(&candidates).enumerate() {
            let chosen = search.advance(candidates);
            parents.extend(chosen.into_iter().map(|beam| index * beams + beam));
        }
        if searches.iter().all(Search::is_done) {
            break;
        }
        decoding.reorder(&parents);
    }
    Ok(searches.into_iter().map(Search::into_best).collect())
}

/// The best candidates of every input, the best first.
fn candidates(
    model: &M2M100,
    hidden: &Tensor,
    searches: &[Search],
    count: usize,
) -> Result<Vec<Vec<Candidate>>> {
    let vocabulary = model.config.vocab_size;
    let (batch, beams) = (hidden.shape()[0], hidden.shape()[1]);
    let scores: Vec<f32> = searches.iter().flat_map(Search::scores).collect();
    let scores = Tensor::from_slice(&scores, &[batch, beams, 1], &hidden.device())?;
    let logits = model.logits_of(hidden)?.to_dtype(DType::F32)?;
    let all = logits.log_softmax(-1)?.add(&scores)?.reshape(&[batch, beams * vocabulary])?;
    let (scores, places) = all.topk(count, 1, true)?;
    let (scores, places) = (scores.to_vec::<f32>()?, places.to_vec::<i64>()?);
    let candidate = |(&score, &place): (&f32, &i64)| {
        let place = place as usize;
        Candidate { score, beam: place / vocabulary, token: (place % vocabulary) as u32 }
    };
    let rows = scores.chunks_exact(count).zip(places.chunks_exact(count));
    Ok(rows.map(|(scores, places)| scores.iter().zip(places).map(candidate).collect()).collect())
}

impl M2M100 {
    /// The scores of all tokens that may come next, from states of the decoder.
    pub(super) fn logits_of(&self, hidden: &Tensor) -> Result<Tensor> {
        self.head.forward(&self.decoder.finish(hidden.clone())?)
    }
}
