//! Scenarios about answers: many threads compute, sharing weights only.

use millstream::{
    Activation, Buffer, Command, DType, Distribution, Generator, Layout, Operand, Result, Tensor,
};

use super::super::harness::{Context, Outcome};

fn seed(thread: usize, iteration: usize) -> u64 {
    (thread * 1000 + iteration) as u64
}

pub(super) fn basic(context: &Context) -> Outcome {
    context.compare(|thread, iteration| {
        let a = context.randn(&[64, 64], seed(thread, iteration))?;
        let b = context.randn(&[64, 64], seed(thread, iteration) + 1)?;
        a.matmul(&b)?.relu()?.to_bytes()
    })
}

pub(super) fn large(context: &Context) -> Outcome {
    context.fewer(10).compare(|thread, iteration| {
        let size = 1024 / context.divisor;
        let a = context.randn(&[size, size], seed(thread, iteration))?;
        let b = a.tanh()?;
        let d = (&a * b.t()?)?.softmax(-1)?;
        d.sum(0, true)?.to_bytes()
    })
}

/// Settled weights that all threads read.
fn weights(context: &Context, shapes: &[&[usize]]) -> Result<Vec<Tensor>> {
    let weight = |(shape, seed): (&&[usize], u64)| {
        let rows = shape.iter().rev().nth(1).copied().unwrap_or(1) as f32;
        (context.randn(shape, seed)? * rows.sqrt().recip())?.settle()
    };
    shapes.iter().zip(77..).map(weight).collect()
}

fn operand(tensor: &Tensor) -> Operand<&Buffer> {
    tensor.buffer().operand(*tensor.layout())
}

/// A product with all that one Command can do besides.
fn linear(
    a: &Tensor,
    (weight, bias): (&Tensor, &Tensor),
    residual: Option<&Tensor>,
    activation: Activation,
) -> Result<Tensor> {
    let stream = a.device().stream()?;
    let layout = Layout::contiguous(DType::F32, &[a.dim(0)?, weight.dim(1)?])?;
    let result = stream.allocate(layout.dense_bytes())?;
    stream.record(Command::matmul(
        result.operand(layout),
        operand(a),
        operand(weight),
        Some(operand(bias)),
        residual.map(operand),
        1.0,
        activation,
    )?)?;
    Tensor::from_buffer(result, layout)
}

/// An encoder layer with 4 heads of 64 and a feed-forward part of 1024, on 32 positions.
pub(super) fn commands(context: &Context) -> Outcome {
    let (width, inner) = (256 / context.divisor, 1024 / context.divisor);
    let (heads, length) = (4, 32);
    let size = width / heads;
    let shapes: &[&[usize]] = &[
        &[width, 3 * width],
        &[3 * width],
        &[width, width],
        &[width],
        &[width, inner],
        &[inner],
        &[inner, width],
        &[width],
        &[width],
        &[width],
        &[width],
        &[width],
    ];
    let w = match weights(context, shapes) {
        Ok(weights) => weights,
        Err(error) => {
            let mut outcome = Outcome::default();
            outcome.error(format!("weights: {error}"));
            return outcome;
        }
    };
    let norm =
        |x: &Tensor, first: usize| x.layer_norm(1, Some(&w[first]), Some(&w[first + 1]), 1e-5);
    context.compare(|thread, iteration| {
        let x = context.randn(&[length, width], seed(thread, iteration))?;
        let qkv = linear(&x, (&w[0], &w[1]), None, Activation::None)?;
        let part = |index: usize| -> Result<Tensor> {
            let part = qkv.narrow(1, index * width, width)?.contiguous()?;
            part.reshape(&[length, heads, size])?.permute(&[1, 0, 2])
        };
        let (q, k, v) = (part(0)?, part(1)?, part(2)?);
        let scores = (q.matmul(&k.t()?)? * (size as f32).sqrt().recip())?;
        let mixed = scores.softmax(-1)?.matmul(&v)?;
        let joined = mixed.permute(&[1, 0, 2])?.reshape(&[length, width])?;
        let attended = linear(&joined, (&w[2], &w[3]), Some(&x), Activation::None)?;
        let first = norm(&attended, 8)?;
        let hidden = linear(&first, (&w[4], &w[5]), None, Activation::Gelu)?;
        let second = linear(&hidden, (&w[6], &w[7]), Some(&first), Activation::None)?;
        norm(&second, 10)?.to_bytes()
    })
}

pub(super) fn unique_shapes(context: &Context) -> Outcome {
    context.compare(|thread, iteration| {
        let (rows, columns) = (1 + thread % 61, 3 + (thread * 7 + iteration) % 53);
        let a = context.randn(&[rows, columns], seed(thread, iteration))?;
        let b = context.randn(&[columns, rows], seed(thread, iteration) + 1)?;
        a.matmul(&b)?.softmax(-1)?.to_bytes()
    })
}

/// Threads reserve parts of one sequence; all parts together must be the whole sequence.
pub(super) fn random(context: &Context) -> Outcome {
    const PART: usize = 1000;
    let generator = Generator::new(5);
    let uniform = Distribution::Uniform { low: 0.0, high: 1.0 };
    let draw = |offset: u64| -> Result<Vec<u8>> {
        let stream = context.device.stream()?;
        let layout = Layout::contiguous(DType::F32, &[PART])?;
        let part = stream.allocate(layout.dense_bytes())?;
        let operand = part.operand(layout);
        stream.record(Command::random(operand, uniform, generator.seed(), offset)?)?;
        stream.download(operand)?.bytes()
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
        if draw(*offset).ok().as_ref() != Some(bytes) {
            outcome.mismatches += 1;
        }
    }
    outcome
}
