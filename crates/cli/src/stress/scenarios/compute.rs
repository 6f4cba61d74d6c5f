//! Scenarios about answers: many threads compute, sharing weights only.

use millstream::{Activation, BinaryOp, Command, Distribution, Generator, Result, UnaryOp};

use super::super::harness::{Context, Outcome};
use super::super::values::{Math, Value, Weights};

fn seed(thread: usize, iteration: usize) -> u64 {
    (thread * 1000 + iteration) as u64
}

pub(super) fn basic(context: &Context) -> Outcome {
    context.compare(|thread, iteration| {
        let math = Math::current(&context.device)?;
        let a = math.randn(&[64, 64], seed(thread, iteration))?;
        let b = math.randn(&[64, 64], seed(thread, iteration) + 1)?;
        let product = math.matmul(&a, &b)?;
        math.read(&math.unary(UnaryOp::Relu, &product)?)
    })
}

pub(super) fn large(context: &Context) -> Outcome {
    context.fewer(10).compare(|thread, iteration| {
        let math = Math::current(&context.device)?;
        let a = math.randn(&[1024, 1024], seed(thread, iteration))?;
        let b = math.unary(UnaryOp::Tanh, &a)?;
        let c = math.binary(BinaryOp::Mul, &a, &b.transposed()?)?;
        let d = math.softmax(&c)?;
        math.read(&math.sum(&d, 0)?)
    })
}

/// Runs a model over shared weights; an error while loading is the outcome.
fn with_weights(
    context: &Context,
    shapes: &[&[usize]],
    call: impl Fn(&Math, &[Value], usize, usize) -> Result<Value> + Sync,
) -> Outcome {
    let weights = match Weights::random(&context.device, shapes, 77) {
        Ok(weights) => weights,
        Err(error) => {
            let mut outcome = Outcome::default();
            outcome.error(format!("weights: {error}"));
            return outcome;
        }
    };
    context.compare(|thread, iteration| {
        let math = Math::current(&context.device)?;
        math.read(&call(&math, &weights.0, thread, iteration)?)
    })
}

/// An encoder layer with 4 heads of 64 and a feed-forward part of 1024, on 32 positions.
pub(super) fn commands(context: &Context) -> Outcome {
    let (width, heads, length) = (256, 4, 32);
    let size = width / heads;
    let shapes: &[&[usize]] = &[
        &[width, 3 * width],
        &[3 * width],
        &[width, width],
        &[width],
        &[width, 1024],
        &[1024],
        &[1024, width],
        &[width],
        &[width],
        &[width],
        &[width],
        &[width],
    ];
    with_weights(context, shapes, move |math, w, thread, iteration| {
        let x = math.randn(&[length, width], seed(thread, iteration))?;
        let qkv = math.linear(&x, &w[0], Some(&w[1]), None, 1.0, Activation::None)?;
        let part = |index: usize| -> Result<Value> {
            let layout = qkv.layout.slice(1, index * width, width, 1)?;
            let dense = math.copy(&Value { buffer: qkv.buffer.clone(), layout })?;
            dense.reshaped(&[length, heads, size])?.permuted(&[1, 0, 2])
        };
        let (q, k, v) = (part(0)?, part(1)?, part(2)?);
        let scale = (size as f32).sqrt().recip();
        let scores = {
            let result = math.empty(&[heads, length, length])?;
            math.stream.record(Command::matmul(
                result.operand(),
                q.operand(),
                k.transposed()?.operand(),
                None,
                None,
                scale,
                Activation::None,
            )?)?;
            result
        };
        let mixed = math.matmul(&math.softmax(&scores)?, &v)?;
        let joined = math.copy(&mixed.permuted(&[1, 0, 2])?)?.reshaped(&[length, width])?;
        let attended = math.linear(&joined, &w[2], Some(&w[3]), Some(&x), 1.0, Activation::None)?;
        let first = math.layer_norm(&attended, &w[8], &w[9])?;
        let hidden = math.linear(&first, &w[4], Some(&w[5]), None, 1.0, Activation::Gelu)?;
        let second =
            math.linear(&hidden, &w[6], Some(&w[7]), Some(&first), 1.0, Activation::None)?;
        math.layer_norm(&second, &w[10], &w[11])
    })
}

pub(super) fn unique_shapes(context: &Context) -> Outcome {
    context.compare(|thread, iteration| {
        let math = Math::current(&context.device)?;
        let (rows, columns) = (1 + thread % 61, 3 + (thread * 7 + iteration) % 53);
        let a = math.randn(&[rows, columns], seed(thread, iteration))?;
        let b = math.randn(&[columns, rows], seed(thread, iteration) + 1)?;
        math.read(&math.softmax(&math.matmul(&a, &b)?)?)
    })
}

/// Threads reserve parts of one sequence; all parts together must be the whole sequence.
pub(super) fn random(context: &Context) -> Outcome {
    const PART: usize = 1000;
    let generator = Generator::new(5);
    let uniform = Distribution::Uniform { low: 0.0, high: 1.0 };
    let draw = |offset: u64| -> Result<Vec<u8>> {
        let math = Math::current(&context.device)?;
        let part = math.empty(&[PART])?;
        math.stream.record(Command::random(part.operand(), uniform, generator.seed(), offset)?)?;
        math.read(&part)
    };
    let parts = std::sync::Mutex::new(Vec::new());
    let mut outcome = context.on_threads(
        |_| {},
        |thread, outcome| {
            for _ in 0..context.iterations {
                outcome.ops += 1;
                let offset = generator.reserve(PART as u64);
                match draw(offset) {
                    Ok(bytes) => {
                        let mut parts =
                            parts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        parts.push((offset, bytes));
                    }
                    Err(error) => outcome.error(format!("thread {thread}: {error}")),
                }
            }
        },
    );
    let mut parts = parts.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    parts.sort_by_key(|(offset, _)| *offset);
    for (place, (offset, bytes)) in parts.iter().enumerate() {
        outcome.expect(*offset == (place * PART) as u64, "a part was handed out twice");
        if draw(*offset).as_ref() != Ok(bytes) {
            outcome.mismatches += 1;
        }
    }
    outcome
}
