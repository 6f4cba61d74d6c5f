//! Plain `f32` code passes, so the bounds ask for nothing out of reach.
//!
//! It is also the second opinion on the reference: these kernels share no arithmetic with it. Two
//! things do take care: a function whose usual formula loses digits on one side of zero, and sums of
//! very many terms, which have to be made of partial sums.

use millstream_conformance::{
    Case, Dense, Outcome, ReferenceTarget, Report, Target, Value, encode, run_kinds,
};
use millstream_core::{Activation, BinaryOp, DType, Op, OpKind, ReduceOp, UnaryOp};

/// Computes in `f32` what it can, in order, and leaves the rest to the reference.
struct Plain;

impl Target for Plain {
    fn name(&self) -> &str {
        "plain f32"
    }

    fn supports(&self, kind: OpKind) -> bool {
        ReferenceTarget.supports(kind)
    }

    fn run(&self, case: &Case) -> Result<Outcome, String> {
        let mut outcome = ReferenceTarget.run(case)?;
        let output = case.outputs()[0];
        let dtype = output.layout.dtype();
        let inputs: Vec<Numbers> = case.input_values().into_iter().map(Numbers::from).collect();
        if dtype == DType::F64 || !dtype.is_float() {
            return Ok(outcome);
        }
        if let Some(values) = compute(case, &inputs, output.layout.shape()) {
            let bytes = &mut outcome.buffers[output.buffer];
            for (index, value) in values.into_iter().enumerate() {
                let place = output.layout.position(index) * dtype.size();
                let value = encode(dtype, Value::Float(f64::from(value)));
                bytes[place..][..dtype.size()].copy_from_slice(&value[..dtype.size()]);
            }
        }
        Ok(outcome)
    }
}

struct Numbers {
    shape: Vec<usize>,
    dense: Dense,
    values: Vec<f32>,
}

impl From<Dense> for Numbers {
    fn from(dense: Dense) -> Self {
        let values = dense.values.iter().map(|value| value.as_f64() as f32).collect();
        Self { shape: dense.shape.clone(), dense, values }
    }
}

impl Numbers {
    fn broadcast(&self, shape: &[usize]) -> Vec<f32> {
        Numbers::from(self.dense.broadcast(shape)).values
    }
}

fn compute(case: &Case, inputs: &[Numbers], shape: &[usize]) -> Option<Vec<f32>> {
    match &case.op {
        Op::Unary { op } => inputs[0].broadcast(shape).into_iter().map(|x| unary(*op, x)).collect(),
        Op::Binary { op } => {
            let pairs = inputs[0].broadcast(shape).into_iter().zip(inputs[1].broadcast(shape));
            pairs.map(|(a, b)| binary(*op, a, b)).collect()
        }
        Op::Reduce { op, axes } if axes.iter().eq([1]) && inputs[0].shape.len() == 2 => {
            let size = inputs[0].shape[1];
            (size > 0)
                .then(|| inputs[0].values.chunks(size).map(|row| reduce(*op, row)).collect())?
        }
        Op::Softmax { axis, log }
            if usize::from(*axis) + 1 == shape.len() && !shape.contains(&0) =>
        {
            let rows = inputs[0].values.chunks(shape[usize::from(*axis)]);
            Some(rows.flat_map(|row| softmax(row, *log)).collect())
        }
        Op::LayerNorm { axes, epsilon, weight, bias, moments: _ } if !shape.contains(&0) => {
            let row = &shape[shape.len() - usize::from(*axes)..];
            let weights = weight.then(|| inputs[1].broadcast(row));
            let biases = bias.then(|| inputs[1 + usize::from(*weight)].broadcast(row));
            let rows = inputs[0].values.chunks(row.iter().product());
            let normal = |row| layer_norm(row, weights.as_deref(), biases.as_deref(), *epsilon);
            Some(rows.flat_map(normal).collect())
        }
        Op::MatMul { epilogue } if shape.len() == 2 => {
            let extra: Vec<_> = inputs[2..].iter().map(|input| input.broadcast(shape)).collect();
            let (m, n, k) = (shape[0], shape[1], inputs[0].shape[1]);
            let mut values = Vec::new();
            for at in 0..m * n {
                let term =
                    |i: usize| inputs[0].values[at / n * k + i] * inputs[1].values[i * n + at % n];
                let sum = (0..k).map(term).fold(0.0, |sum, term| sum + term);
                let sum = extra.iter().fold(sum * epilogue.scale, |sum, extra| sum + extra[at]);
                values.push(activate(epilogue.activation, sum)?);
            }
            Some(values)
        }
        _ => None,
    }
}

fn unary(op: UnaryOp, x: f32) -> Option<f32> {
    use UnaryOp::*;
    Some(match op {
        Exp => x.exp(),
        Expm1 => x.exp_m1(),
        Log => x.ln(),
        Log1p => x.ln_1p(),
        Log2 => x.log2(),
        Sqrt => x.sqrt(),
        Rsqrt => 1.0 / x.sqrt(),
        Reciprocal => 1.0 / x,
        Square => x * x,
        Sin => x.sin(),
        Cos => x.cos(),
        Tan => x.tan(),
        Asin => x.asin(),
        Acos => x.acos(),
        Atan => x.atan(),
        Sinh => x.sinh(),
        Cosh => x.cosh(),
        Tanh => x.tanh(),
        Atanh => (0.5 * (2.0 * x.abs() / (1.0 - x.abs())).ln_1p()).copysign(x),
        Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Silu => x / (1.0 + (-x).exp()),
        GeluTanh => {
            0.5 * x
                * (1.0 + (std::f32::consts::FRAC_2_PI.sqrt() * (x + 0.044715 * x * x * x)).tanh())
        }
        Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p() + if x.is_nan() { x } else { 0.0 },
        Softsign => x / (1.0 + x.abs()),
        LeakyRelu { slope } => {
            if x >= 0.0 {
                x
            } else {
                slope * x
            }
        }
        Elu { alpha } => {
            if x >= 0.0 {
                x
            } else {
                alpha * (x.exp() - 1.0)
            }
        }
        Selu { alpha, gamma } => gamma * if x >= 0.0 { x } else { alpha * x.exp() - alpha },
        Celu { alpha } => {
            if x >= 0.0 {
                x
            } else {
                alpha * ((x / alpha).exp() - 1.0)
            }
        }
        Round => x.round_ties_even(),
        _ => return None,
    })
}

fn binary(op: BinaryOp, a: f32, b: f32) -> Option<f32> {
    use BinaryOp::*;
    Some(match op {
        Add => a + b,
        Sub => a - b,
        Mul => a * b,
        Div => a / b,
        Pow => a.powf(b),
        Fmod => a % b,
        Mod => {
            let rest = a % b;
            if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
        }
        Atan2 => a.atan2(b),
        Prelu => {
            if a >= 0.0 {
                a
            } else {
                a * b
            }
        }
        _ => return None,
    })
}

fn reduce(op: ReduceOp, row: &[f32]) -> Option<f32> {
    let sum = |term: fn(f32) -> f32| row.iter().fold(0.0, |sum, &x| sum + term(x));
    Some(match op {
        ReduceOp::Sum => sum(|x| x),
        ReduceOp::Mean => sum(|x| x) / row.len() as f32,
        ReduceOp::L1 => sum(f32::abs),
        ReduceOp::L2 => sum(|x| x * x).sqrt(),
        ReduceOp::Prod => row.iter().product(),
        _ => return None,
    })
}

fn softmax(row: &[f32], log: bool) -> Vec<f32> {
    let largest = row.iter().fold(f32::NEG_INFINITY, |best, &x| if x > best { x } else { best });
    let partial = |part: &[f32]| part.iter().map(|x| (x - largest).exp()).sum::<f32>();
    let sum: f32 = row.chunks(256).map(partial).sum();
    let value = |x: &f32| if log { x - largest - sum.ln() } else { (x - largest).exp() / sum };
    row.iter().map(value).collect()
}

fn layer_norm(row: &[f32], weight: Option<&[f32]>, bias: Option<&[f32]>, epsilon: f32) -> Vec<f32> {
    let n = row.len() as f32;
    let mean = row.iter().sum::<f32>() / n;
    let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / n;
    let inverse = 1.0 / (variance + epsilon).sqrt();
    let value = |(at, x): (usize, &f32)| {
        (x - mean) * inverse * weight.map_or(1.0, |w| w[at]) + bias.map_or(0.0, |b| b[at])
    };
    row.iter().enumerate().map(value).collect()
}

fn activate(activation: Activation, x: f32) -> Option<f32> {
    match activation {
        Activation::None => Some(x),
        Activation::Relu => Some(if x < 0.0 { 0.0 } else { x }),
        Activation::GeluTanh => unary(UnaryOp::GeluTanh, x),
        Activation::Silu => unary(UnaryOp::Silu, x),
        Activation::Sigmoid => unary(UnaryOp::Sigmoid, x),
        Activation::Tanh => Some(x.tanh()),
        Activation::LeakyRelu { slope } => unary(UnaryOp::LeakyRelu { slope }, x),
        Activation::HardSwish => Some(x * (x + 3.0).clamp(0.0, 6.0) / 6.0),
        Activation::ScaledHardSwish { scale, shift } => {
            Some(scale * (x * (x + 3.0).clamp(0.0, 6.0) / 6.0) + shift)
        }
        Activation::Clip { min, max } => Some(x.clamp(min, max)),
        Activation::Gelu => None,
    }
}

const KINDS: [OpKind; 6] = [
    OpKind::Unary,
    OpKind::Binary,
    OpKind::Reduce,
    OpKind::Softmax,
    OpKind::LayerNorm,
    OpKind::MatMul,
];

#[test]
fn plain_f32_code_is_accurate_enough() {
    let report = run_kinds(&Plain, &KINDS);
    assert!(report.is_clean(), "{report}");
}

/// The same with each result moved by a fraction that the bounds should not allow.
struct Careless;

impl Target for Careless {
    fn name(&self) -> &str {
        "careless"
    }

    fn supports(&self, kind: OpKind) -> bool {
        Plain.supports(kind)
    }

    fn run(&self, case: &Case) -> Result<Outcome, String> {
        let mut outcome = Plain.run(case)?;
        let output = case.outputs()[0];
        if output.layout.dtype() == DType::F32 {
            let bytes = &mut outcome.buffers[output.buffer];
            for index in 0..output.layout.elements() {
                let place = &mut bytes[output.layout.position(index) * 4..][..4];
                let value = f32::from_ne_bytes([place[0], place[1], place[2], place[3]]);
                place.copy_from_slice(&(value * 1.000_05).to_ne_bytes());
            }
        }
        Ok(outcome)
    }
}

#[test]
fn an_error_of_five_in_a_hundred_thousand_is_too_much() {
    let report: Report = run_kinds(&Careless, &KINDS);
    for kind in ["unary/Exp/f32", "binary/Div/f32", "reduce/L1/f32", "softmax/false/f32"] {
        let failed = report.failed.iter().filter(|failure| failure.name.starts_with(kind)).count();
        assert!(failed > 10, "{kind}: {failed}");
    }
    for kind in ["layer_norm/f32", "matmul/f32"] {
        let failed = report.failed.iter().filter(|failure| failure.name.starts_with(kind)).count();
        assert!(failed > 50, "{kind}: {failed}");
    }
}
