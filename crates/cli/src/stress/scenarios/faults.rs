//! Scenarios about calls that fail.

use millstream::nn::{Embedding, Linear, Module, Result, Weights};
use millstream::{DType, Tensor};

use super::super::harness::{Context, Outcome, is_fault};

const ROWS: i64 = 100;

struct Model {
    embedding: Embedding,
    linear: Linear,
}

impl Model {
    fn new(context: &Context) -> Result<Self> {
        let weights = Weights::random(1, DType::F32, &context.device);
        Ok(Self {
            embedding: Embedding::new(ROWS as usize, 64, &weights.child("embedding"))?,
            linear: Linear::new(64, 64, true, &weights.child("linear"))?,
        })
    }

    fn call(&self, context: &Context, id: i64) -> Result<Vec<f32>> {
        let ids = Tensor::from_slice(&[id], &[1], &context.device)?;
        self.linear.forward(&self.embedding.forward(&ids)?)?.to_vec()
    }
}

/// The first thread fails in every call and gets the error every time; nobody else does.
pub(super) fn bad_caller(context: &Context) -> Outcome {
    let mut total = Outcome::default();
    for streams in [2, 32, 64] {
        let part = context.with_own_device(
            |device| device.streams(streams),
            |context| match Model::new(context) {
                Ok(model) => calls(context, &model),
                Err(error) => {
                    let mut outcome = Outcome::default();
                    outcome.error(error);
                    outcome
                }
            },
        );
        total.add(part);
    }
    total
}

fn calls(context: &Context, model: &Model) -> Outcome {
    let expected: Vec<_> = (0..ROWS).map(|id| model.call(context, id)).collect();
    context.on_threads(
        |_| {},
        |thread, outcome| {
            for iteration in 0..context.iterations {
                if thread == 0 {
                    outcome.ops += 1;
                    let answer = model.call(context, ROWS + iteration as i64);
                    outcome.expect(is_fault(&answer), "the bad caller got no error");
                    continue;
                }
                let id = (thread + iteration) as i64 % ROWS;
                let what = format!("thread {thread}, call {iteration}");
                match &expected[id as usize] {
                    Ok(expected) => {
                        let answer = model.call(context, id).map(|values| bytes(&values));
                        outcome.count(&what, answer, &bytes(expected));
                    }
                    Err(error) => outcome.error(format!("sequential {what}: {error}")),
                }
            }
        },
    )
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}
