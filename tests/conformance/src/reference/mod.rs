//! The right answers: plain code in `f64` and `i64`, one room per family of operations.

mod attention;
mod binary;
mod conv;
mod convert;
mod cumsum;
mod fourier;
mod gather;
mod integer;
mod layer_norm;
mod matmul;
mod norms;
mod pad;
mod pool;
mod quantize;
mod recurrent;
mod reduce;
mod resize;
mod scatter;
mod select;
mod softmax;
pub(crate) mod special;
mod top_k;
mod unary;

pub use convert::convert;

use millstream_core::{DType, Distribution, Scalar, UnaryOp};

use crate::{Case, Dense, Expected, Spec, Value, accuracy, decode};

/// What is expected of each element that a case gives, in row-major order of its output, or of its
/// input for a download. Several outputs come one after the other.
pub fn reference(case: &Case) -> Vec<Expected> {
    let inputs = case.input_values();
    let Some(output) = case.outputs().first().map(|output| output.layout) else {
        return inputs[0].values.iter().map(|&value| Expected::Exact(value)).collect();
    };
    let (dtype, shape) = (output.dtype(), output.shape());
    match &case.spec {
        Spec::Fill { value } => vec![fill(*value, dtype); output.elements()],
        Spec::Copy => {
            let convert = |value: &Value| Expected::Exact(convert(*value, dtype));
            inputs[0].broadcast(shape).values.iter().map(convert).collect()
        }
        Spec::Unary(op) => unary::apply(*op, &inputs[0].broadcast(shape)),
        Spec::Binary(op) => {
            binary::apply(*op, &inputs[0].broadcast(shape), &inputs[1].broadcast(shape))
        }
        Spec::Where => {
            select::choose(&[0, 1, 2].map(|input: usize| inputs[input].broadcast(shape)))
        }
        Spec::Clip { min, max } => select::clip(*min, *max, &inputs[0].broadcast(shape)),
        Spec::Reduce { op, axes } => reduce::apply(*op, *axes, &inputs[0]),
        Spec::CumSum { axis, exclusive, reverse } => {
            cumsum::apply(*axis, *exclusive, *reverse, &inputs[0])
        }
        Spec::Softmax { axis, log } => softmax::apply(*axis, *log, &inputs[0]),
        Spec::LayerNorm { axes, epsilon, weight, bias } => {
            let mut rest = inputs[1..].iter();
            let weight = weight.then(|| rest.next().expect("weight"));
            let bias = bias.then(|| rest.next().expect("bias"));
            layer_norm::apply(*axes, f64::from(*epsilon), &inputs[0], weight, bias)
        }
        Spec::RmsNorm { axes, epsilon, .. } => {
            norms::rms(*axes, f64::from(*epsilon), &inputs[0], inputs.get(1))
        }
        Spec::GroupNorm { groups, epsilon, weight, bias } => {
            let mut rest = inputs[1..].iter();
            let weight = weight.then(|| rest.next().expect("weight"));
            let bias = bias.then(|| rest.next().expect("bias"));
            norms::group(*groups, f64::from(*epsilon), &inputs[0], weight, bias)
        }
        Spec::MatMul { scale, bias, residual, activation } => {
            let mut rest = inputs[2..].iter();
            let mut sums: Vec<Dense> = Vec::new();
            for _ in 0..usize::from(*bias) + usize::from(*residual) {
                sums.push(rest.next().expect("bias or residual").broadcast(shape));
            }
            matmul::apply(shape, &inputs[0], &inputs[1], &sums, f64::from(*scale), *activation)
        }
        Spec::Pool { params, indices } => pool::apply(params, *indices, shape, &inputs[0]),
        Spec::Gather { axis } => gather::along(*axis, &inputs[0], &inputs[1]),
        Spec::Embedding => gather::along(0, &inputs[0], &inputs[1]),
        Spec::GatherElements { axis } => gather::elements(*axis, &inputs[0], &inputs[1]),
        Spec::GatherNd { batch_axes } => gather::tuples(*batch_axes, &inputs[0], &inputs[1]),
        Spec::ScatterElements { axis, reduction } => {
            scatter::elements(*axis, *reduction, &inputs[0], &inputs[1], &inputs[2])
        }
        Spec::ScatterNd { reduction } => {
            scatter::tuples(*reduction, &inputs[0], &inputs[1], &inputs[2])
        }
        Spec::TopK { axis, largest, sorted } => {
            top_k::apply(*axis, shape[*axis], *largest, *sorted, &inputs[0])
        }
        Spec::Resize(params) => resize::apply(params, shape, &inputs[0]),
        Spec::Pad(params) => pad::apply(params, shape, &inputs[0]),
        Spec::Conv { transposed, params, scale, bias, residual, activation } => {
            let mut rest = inputs[2..].iter();
            let mut sums: Vec<Dense> = Vec::new();
            if *bias {
                sums.push(conv::spread(rest.next().expect("bias"), shape, 1));
            }
            if *residual {
                sums.push(rest.next().expect("residual").broadcast(shape));
            }
            let window = conv::Window { transposed: *transposed, params, shape };
            let scale = f64::from(*scale);
            conv::apply(&window, &inputs[0], &inputs[1], &sums, scale, *activation)
        }
        Spec::Attention { scale, causal, .. } => {
            attention::apply(&inputs, f64::from(*scale), *causal)
        }
        Spec::Recurrent(params) => recurrent::apply(params, &inputs),
        Spec::Dft { axis, inverse, onesided } => {
            fourier::transform(*axis, *inverse, *onesided, &inputs[0], shape)
        }
        Spec::Stft { frame, hop, .. } => {
            fourier::frames(*frame, *hop, &inputs[0], inputs.get(1), shape)
        }
        Spec::Quantize { axis, back, .. } => quantize::apply(*axis, *back, &inputs, dtype),
        Spec::MatMulInteger { a_zero, b_zero } => {
            quantize::product(shape, &inputs, *a_zero, *b_zero)
        }
        Spec::ConvInteger { params, src_zero, weight_zero } => {
            let window = conv::Window { transposed: false, params, shape };
            conv::integers(&window, &inputs, *src_zero, *weight_zero)
        }
        Spec::Random { distribution, .. } => vec![random_range(*distribution); output.elements()],
        Spec::Upload { bytes } => {
            let value = |bytes| Expected::Exact(decode(dtype, bytes));
            bytes.chunks(dtype.size()).map(value).collect()
        }
        Spec::Timestamp => vec![Expected::Between { low: 0.0, high: i64::MAX as f64 }],
        Spec::Download => unreachable!("a download has no output"),
    }
}

fn fill(value: Scalar, dtype: DType) -> Expected {
    Expected::Exact(scalar(value, dtype))
}

/// A scalar as an element of a type.
fn scalar(value: Scalar, dtype: DType) -> Value {
    // A scalar is converted where it is used, as an element would be.
    let value = match value {
        Scalar::Float(value) => Value::Float(value),
        Scalar::Int(value) => Value::Int(value),
        Scalar::Bool(value) => Value::Int(i64::from(value)),
    };
    convert(value, dtype)
}

/// What every random number keeps to; what they are together is a matter of properties.
fn random_range(distribution: Distribution) -> Expected {
    let (low, high) = match distribution {
        Distribution::Uniform { low, high } => (f64::from(low), f64::from(high)),
        // Nothing that starts from 64 random bits gets farther than this.
        Distribution::Normal { mean, deviation } => {
            let reach = 9.5 * f64::from(deviation).abs();
            (f64::from(mean) - reach, f64::from(mean) + reach)
        }
    };
    Expected::Between { low, high }
}

/// An expected floating-point value from a bound, which has no meaning where the value is not finite.
fn near(value: f64, tolerance: f64) -> Expected {
    let tolerance = if value.is_finite() { tolerance } else { 0.0 };
    debug_assert!(tolerance.is_finite(), "a bound of {tolerance} accepts everything");
    Expected::Near { value, tolerance }
}

/// An activation of a number that may itself be off by `error`.
fn activate(kind: millstream_core::Activation, dtype: DType, x: f64, error: f64) -> Expected {
    use millstream_core::Activation as A;
    let value = match kind {
        A::None => x,
        A::Relu => unary::float(UnaryOp::Relu, x),
        A::Gelu => unary::float(UnaryOp::Gelu, x),
        A::GeluTanh => unary::float(UnaryOp::GeluTanh, x),
        A::Silu => unary::float(UnaryOp::Silu, x),
        A::Sigmoid => unary::float(UnaryOp::Sigmoid, x),
        A::Tanh => unary::float(UnaryOp::Tanh, x),
        A::LeakyRelu { slope } => unary::float(UnaryOp::LeakyRelu { slope }, x),
        A::HardSwish => unary::float(UnaryOp::HardSwish, x),
        A::Clip { .. } if x.is_nan() => x,
        A::Clip { min, max } => x.max(f64::from(min)).min(f64::from(max)),
    };
    near(value, accuracy::activation(kind, dtype, x, value, error))
}
