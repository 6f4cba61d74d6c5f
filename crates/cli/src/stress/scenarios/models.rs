//! Scenarios about models: many threads call layers that they share.

use millstream::nn::{
    Conv1d, ConvOptions, LSTM, LayerNorm, Linear, Module, Plan, ReLU, RecurrentOptions, Result,
    Sequential, TransformerEncoderLayer, TransformerOptions, Weights,
};
use millstream::{DType, Tensor};

use super::super::harness::{Context, Outcome};

/// A model and the shape of its input. Both are given what sizes are divided by.
pub(super) struct Model {
    input: fn(usize) -> Vec<usize>,
    build: fn(&Weights, usize) -> Result<Sequential>,
}

const LINEAR: Model = Model {
    input: |by| vec![4, 256 / by],
    build: |weights, by| {
        Ok(Sequential::new().push(Linear::new(256 / by, 512 / by, true, weights)?))
    },
};

const MLP: Model = Model {
    input: |by| vec![2, 256 / by],
    build: |weights, by| {
        let (width, inner) = (256 / by, 512 / by);
        Ok(Sequential::new()
            .push(Linear::new(width, inner, true, &weights.child(0))?)
            .push(ReLU)
            .push(Linear::new(inner, inner, true, &weights.child(2))?)
            .push(ReLU)
            .push(Linear::new(inner, width, true, &weights.child(4))?))
    },
};

const CONV1D: Model = Model {
    input: |by| vec![4, 1, 1024 / by],
    build: |weights, by| {
        let options = ConvOptions { padding: [1], ..Default::default() };
        let channels = 64 / by;
        Ok(Sequential::new()
            .push(Conv1d::new(1, channels, [3], options, &weights.child(0))?)
            .push(ReLU)
            .push(Conv1d::new(channels, channels, [3], options, &weights.child(2))?)
            .push(ReLU)
            .push(Conv1d::new(channels, 1, [3], options, &weights.child(4))?))
    },
};

const LAYER_NORM: Model = Model {
    input: |by| vec![16, 32 / by, 256],
    build: |weights, _| {
        Ok(Sequential::new().push(LayerNorm::new(&[256], Default::default(), weights)?))
    },
};

const ENCODER: Model = Model {
    input: |by| vec![4, 128 / by, 256 / by],
    build: |weights, by| encoder_layer(256 / by, 1024 / by, weights),
};

const RECURRENT: Model = Model {
    input: |by| vec![4, 24, 64 / by],
    build: |weights, by| {
        let options = RecurrentOptions { num_layers: 2, batch_first: true, ..Default::default() };
        Ok(Sequential::new().push(LSTM::new(64 / by, 96 / by, options, weights)?))
    },
};

pub(super) const MIXED: [Model; 6] = [LINEAR, MLP, CONV1D, LAYER_NORM, ENCODER, RECURRENT];

fn encoder_layer(size: usize, inner: usize, weights: &Weights) -> Result<Sequential> {
    let options =
        TransformerOptions { dim_feedforward: inner, batch_first: true, ..Default::default() };
    Ok(Sequential::new().push(TransformerEncoderLayer::new(size, 4, options, weights)?))
}

impl Model {
    fn load(&self, context: &Context) -> Result<Sequential> {
        let weights = Weights::random(77, DType::F32, &context.device);
        weights.load(|weights| (self.build)(weights, context.divisor))
    }

    fn call(&self, model: &dyn Module, seed: usize, context: &Context) -> Result<Vec<u8>> {
        self.output(model, seed, context)?.to_bytes()
    }

    /// The answer, on its way.
    pub fn output(&self, model: &dyn Module, seed: usize, context: &Context) -> Result<Tensor> {
        model.forward(&context.randn(&(self.input)(context.divisor), seed as u64)?)
    }
}

/// Calls with loaded models; an error while loading is the outcome.
pub(super) fn loaded<T>(models: Result<T>, work: impl FnOnce(&T) -> Outcome) -> Outcome {
    match models {
        Ok(models) => work(&models),
        Err(error) => {
            let mut outcome = Outcome::default();
            outcome.error(format!("weights: {error}"));
            outcome
        }
    }
}

fn seed(thread: usize, iteration: usize) -> usize {
    thread * 1000 + iteration
}

fn one(context: &Context, model: &Model) -> Outcome {
    loaded(model.load(context), |layers| {
        context.compare(|thread, iteration| model.call(layers, seed(thread, iteration), context))
    })
}

pub(super) fn linear(context: &Context) -> Outcome {
    one(context, &LINEAR)
}

pub(super) fn mlp(context: &Context) -> Outcome {
    one(context, &MLP)
}

pub(super) fn conv1d(context: &Context) -> Outcome {
    one(context, &CONV1D)
}

pub(super) fn layer_norm(context: &Context) -> Outcome {
    one(context, &LAYER_NORM)
}

pub(super) fn encoder(context: &Context) -> Outcome {
    one(&context.fewer(2), &ENCODER)
}

pub(super) fn lstm(context: &Context) -> Outcome {
    one(context, &RECURRENT)
}

pub(super) fn load_all(context: &Context) -> Result<Vec<Sequential>> {
    MIXED.iter().map(|model| model.load(context)).collect()
}

/// Threads go round through all models, each from another start.
pub(super) fn mixed(context: &Context) -> Outcome {
    loaded(load_all(context), |layers| {
        context.compare(|thread, iteration| {
            let index = (thread + iteration) % MIXED.len();
            MIXED[index].call(&layers[index], seed(thread, iteration), context)
        })
    })
}

/// The same with plans that all threads share. The first answers come from the models themselves.
pub(super) fn plans(context: &Context) -> Outcome {
    let device = &context.device;
    let prepared = load_all(context).and_then(|layers| {
        let plans = MIXED.iter().zip(&layers);
        let plans = plans.map(|(model, layers)| {
            let input = (model.input)(context.divisor);
            Plan::of_module(layers, &input, DType::F32, device)
        });
        let plans = plans.collect::<Result<Vec<_>>>()?;
        let expected = answers(&layers, context)?;
        Ok((plans, expected))
    });
    loaded(prepared, |(plans, expected)| {
        context.on_threads(
            |_| {},
            |thread, outcome| {
                for iteration in 0..context.iterations {
                    let index = (thread + iteration) % MIXED.len();
                    let what = format!("thread {thread}, plan {index}, call {iteration}");
                    let answer = MIXED[index].call(&plans[index], 9, context);
                    outcome.count(&what, answer, &expected[index]);
                }
            },
        )
    })
}

/// The answers of all models to inputs that every thread uses.
pub(super) fn answers(layers: &[Sequential], context: &Context) -> Result<Vec<Vec<u8>>> {
    MIXED.iter().zip(layers).map(|(model, layers)| model.call(layers, 9, context)).collect()
}

/// Every thread calls every model once, all starting together, each with another model.
fn everything_once(context: &Context, layers: &[Sequential], expected: &[Vec<u8>]) -> Outcome {
    context.on_threads(
        |_| {},
        |thread, outcome| {
            for step in 0..MIXED.len() {
                let index = (thread + step) % MIXED.len();
                let what = format!("thread {thread}, model {index}");
                let answer = MIXED[index].call(&layers[index], 9, context);
                outcome.count(&what, answer, &expected[index]);
            }
        },
    )
}

/// On a new device that has loaded models and computed nothing; the right answers come from the old one.
pub(super) fn cold_start(context: &Context) -> Outcome {
    let expected = load_all(context).and_then(|layers| answers(&layers, context));
    loaded(expected, |expected| {
        context.with_own_device(
            |builder| builder,
            |context| {
                loaded(load_all(context), |layers| everything_once(context, layers, expected))
            },
        )
    })
}

pub(super) fn warm_start(context: &Context) -> Outcome {
    let prepared = load_all(context).and_then(|layers| {
        let expected = answers(&layers, context)?;
        Ok((layers, expected))
    });
    loaded(prepared, |(layers, expected)| everything_once(context, layers, expected))
}

/// No two calls have the same shape.
pub(super) fn unique_calls(context: &Context) -> Outcome {
    let device = &context.device;
    let weights = Weights::random(78, DType::F32, device);
    loaded(weights.load(|weights| encoder_layer(32, 64, weights)), |layers| {
        context.compare_all(|thread, iteration| {
            let number = thread * context.iterations + iteration;
            let shape = [1 + number % 8, 1 + number / 8, 32];
            let input = Tensor::randn(&shape, number as u64, DType::F32, device)?;
            layers.forward(&input)?.to_bytes()
        })
    })
}
