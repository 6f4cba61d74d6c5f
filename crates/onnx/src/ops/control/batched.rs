//! The first version of Scan: every value has batches, each with a length of its own.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use millstream_core::PadMode;
use millstream_graph::{Array, HostCall, HostOperator, HostStep, HostValue};
use millstream_nn::Tensor;

use super::super::common::refusal;
use super::chunks::Chunks;
use crate::Result;

/// A scan for each batch, one after another.
#[derive(Debug)]
pub(super) struct Batched(Arc<Chunks>);

impl Batched {
    pub fn new(chunks: Arc<Chunks>) -> Self {
        Self(chunks)
    }
}

impl HostOperator for Batched {
    fn reads(&self, _: usize) -> bool {
        false
    }

    fn run(&self, call: &HostCall<'_>, inputs: Vec<Option<HostValue>>) -> Result<HostStep> {
        let of = Arc::clone(self.0.of());
        let mut inputs = inputs.into_iter();
        let lengths = inputs.next().flatten();
        let given: Option<Vec<HostValue>> = inputs.collect();
        let Some(mut given) = given else { return Err(refusal("a value is not given")) };
        let captured = given.split_off(of.carried + of.inputs.len());
        let tensors = given.iter().map(|value| value.tensor(call)).collect::<Result<Vec<_>>>()?;
        let Some(first) = tensors.last() else { return Err(refusal("nothing is iterated over")) };
        if first.rank() < 2 || tensors.iter().any(|tensor| tensor.rank() < 1) {
            return Err(refusal("values without batches"));
        }
        let state = State {
            scan: Arc::clone(&self.0),
            batches: first.dim(0)?,
            steps: first.dim(1)?,
            lengths: None,
            carried: of.carried,
            given: tensors,
            captured,
            results: Vec::new(),
        };
        let Some(lengths) = lengths else { return state.next(call) };
        let then = move |call: &HostCall<'_>, read: Vec<Array>| {
            let mut state = state;
            state.lengths = read.first().map(Array::to_i64s).transpose()?;
            state.next(call)
        };
        match lengths.content(call)? {
            Some(lengths) => then(call, vec![lengths]),
            None => {
                Ok(HostStep::Read { tensors: vec![lengths.tensor(call)?], then: Box::new(then) })
            }
        }
    }
}

struct State {
    scan: Arc<Chunks>,
    batches: usize,
    steps: usize,
    lengths: Option<Vec<i64>>,
    carried: usize,
    /// What is carried, and what is iterated over.
    given: Vec<Tensor>,
    captured: Vec<HostValue>,
    /// The results of each batch so far.
    results: Vec<Vec<Tensor>>,
}

impl State {
    fn next(mut self, call: &HostCall<'_>) -> Result<HostStep> {
        let batch = self.results.len();
        if batch == self.batches {
            return self.finish();
        }
        let length = match self.lengths.as_ref().map(|lengths| lengths.get(batch)) {
            None => self.steps,
            Some(Some(&length)) if (0..=self.steps as i64).contains(&length) => length as usize,
            Some(length) => {
                return Err(refusal(format!("length {length:?} of {} steps", self.steps)));
            }
        };
        let mut given = Vec::with_capacity(self.given.len() + self.captured.len());
        for (index, tensor) in self.given.iter().enumerate() {
            let one = tensor.select(0, batch)?;
            let one = if index < self.carried { one } else { one.narrow(0, 0usize, length)? };
            given.push(one.into());
        }
        given.extend(self.captured.iter().cloned());
        let scan = Arc::clone(&self.scan);
        let then = Box::new(move |call: &HostCall<'_>, made: Vec<HostValue>| {
            let mut results = Vec::with_capacity(made.len());
            for (index, value) in made.iter().enumerate() {
                let tensor = value.tensor(call)?;
                let missing = (self.steps - length) as i64;
                if index < self.carried || missing == 0 {
                    results.push(tensor);
                    continue;
                }
                let mut widths = vec![(0, 0); tensor.rank()];
                widths[0].1 = missing;
                results.push(tensor.pad(&widths, PadMode::Constant(0.0.into()))?);
            }
            self.results.push(results);
            self.next(call)
        });
        if length == 0 {
            // It would go on at once, and so would the next one: any number of batches must not use up the stack.
            let then = move |call: &HostCall<'_>, _: Vec<Array>| scan.scan(call, given, then);
            return Ok(HostStep::Read { tensors: Vec::new(), then: Box::new(then) });
        }
        scan.scan(call, given, then)
    }

    fn finish(self) -> Result<HostStep> {
        let count = self.results.first().map_or(0, Vec::len);
        if count == 0 {
            return Err(refusal("there are no batches"));
        }
        let joined = (0..count).map(|index| {
            let parts: Vec<&Tensor> = self.results.iter().map(|results| &results[index]).collect();
            Ok(Tensor::stack(&parts, 0)?.into())
        });
        Ok(HostStep::Done(joined.collect::<Result<_>>()?))
    }
}
