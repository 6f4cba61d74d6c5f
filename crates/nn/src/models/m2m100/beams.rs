//! Beam search over one input, as Transformers does it.

use super::{EarlyStopping, GenerationOptions};

/// A score with this added is never chosen.
const NEVER: f32 = -1e9;

/// A beam's next token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    pub score: f32,
    pub beam: usize,
    pub token: u32,
}

#[derive(Clone, Debug)]
struct Running {
    tokens: Vec<u32>,
    score: f32,
}

#[derive(Clone, Debug)]
struct Finished {
    tokens: Vec<u32>,
    score: f32,
    /// Whether this is an output, or only a placeholder for one.
    is_output: bool,
}

/// The beams of one input.
#[derive(Debug)]
pub struct Search<'a> {
    options: &'a GenerationOptions,
    running: Vec<Running>,
    finished: Vec<Finished>,
    is_done: bool,
}

impl<'a> Search<'a> {
    pub fn new(options: &'a GenerationOptions) -> Self {
        let tokens = vec![options.decoder_start_token_id];
        // At first all beams are the same, so only the first one counts.
        let score = |beam| if beam == 0 { 0.0 } else { NEVER };
        let running = |beam| Running { tokens: tokens.clone(), score: score(beam) };
        let place = Finished { tokens: tokens.clone(), score: NEVER, is_output: false };
        Self {
            options,
            running: (0..options.num_beams).map(running).collect(),
            finished: vec![place; options.num_beams],
            is_done: false,
        }
    }

    pub fn is_done(&self) -> bool {
        self.is_done
    }

    pub fn scores(&self) -> impl Iterator<Item = f32> {
        self.running.iter().map(|beam| beam.score)
    }

    /// The last token of every beam.
    pub fn last_tokens(&self) -> impl Iterator<Item = u32> {
        self.running.iter().map(|beam| beam.tokens.last().copied().unwrap_or_default())
    }

    /// The best output.
    pub fn into_best(mut self) -> Vec<u32> {
        self.finished.swap_remove(0).tokens
    }

    /// How many candidates a step needs, so that enough beams continue if many end.
    pub fn candidates(options: &GenerationOptions) -> usize {
        options.num_beams * (options.eos_token_ids.len() + 1).max(2)
    }

    /// The candidates if only one token may come next.
    pub fn forced(&self, token: u32) -> Vec<Candidate> {
        let candidate = |(beam, score)| Candidate { score, beam, token };
        self.scores().enumerate().map(candidate).collect()
    }

    /// Advances by one step with the best candidates, which are sorted. Returns, for each running beam, the beam that
    /// it continues.
    pub fn advance(&mut self, candidates: &[Candidate]) -> Vec<usize> {
        let options = self.options;
        let length = self.running[0].tokens.len() + 1;
        let ends: Vec<bool> = candidates
            .iter()
            .map(|next| length >= options.max_length || options.eos_token_ids.contains(&next.token))
            .collect();
        if !self.is_done {
            self.finish(candidates, &ends, length);
        }
        let mut order: Vec<(f32, &Candidate)> = candidates
            .iter()
            .zip(&ends)
            .map(|(next, &ends)| (next.score + if ends { NEVER } else { 0.0 }, next))
            .collect();
        order.sort_by(|one, other| other.0.total_cmp(&one.0));
        // There are too few only if all beams were forced to end.
        let chosen = (0..options.num_beams).map(|index| order[index.min(order.len() - 1)]);
        let (parents, running) = chosen
            .map(|(score, next)| {
                let mut tokens = self.running[next.beam].tokens.clone();
                tokens.push(next.token);
                (next.beam, Running { tokens, score })
            })
            .unzip();
        self.running = running;
        self.is_done |= ends.iter().all(|&ends| ends) || !self.goes_on(length);
        parents
    }

    /// Moves the candidates that end to the finished beams, if they would have become beams.
    fn finish(&mut self, candidates: &[Candidate], ends: &[bool], length: usize) {
        let scale = self.scale(length);
        for (next, _) in candidates.iter().zip(ends).take(self.options.num_beams).filter(|it| *it.1)
        {
            let mut tokens = self.running[next.beam].tokens.clone();
            tokens.push(next.token);
            self.finished.push(Finished { tokens, score: next.score / scale, is_output: true });
        }
        self.finished.sort_by(|one, other| other.score.total_cmp(&one.score));
        self.finished.truncate(self.options.num_beams);
    }

    /// Whether running beams of a length may still lead to a better output.
    fn goes_on(&self, length: usize) -> bool {
        let options = self.options;
        let full = self.finished.iter().all(|beam| beam.is_output);
        let assumed = match options.early_stopping {
            EarlyStopping::WhenFull if full => return false,
            EarlyStopping::WhenImpossibleToImprove if options.length_penalty > 0.0 => {
                options.max_length
            }
            _ => length,
        };
        let best = self.running[0].score / self.scale(assumed);
        // A placeholder is worse than any output.
        let worst = self.finished.last().filter(|_| full).map_or(NEVER, |beam| beam.score);
        best > worst
    }

    /// The divisor of the score of an output of some length.
    fn scale(&self, length: usize) -> f32 {
        // The first token is given and does not count.
        let counted = (length - 1) as f64;
        counted.powf(self.options.length_penalty) as f32
    }
}

#[cfg(test)]
mod tests;
