//! The right answers: plain code in `f64` and `i64`, one room per family of operations.

mod attention;
mod binary;
mod blocks;
mod cache;
mod chain;
mod compact;
mod conv;
mod convert;
mod cumsum;
mod deform_conv;
mod dynamic;
mod fourier;
mod gather;
mod grid_sample;
mod integer;
mod iota;
mod layer_norm;
mod matmul;
mod norms;
mod pad;
mod pool;
mod quantize;
mod recurrent;
mod reduce;
mod rescale;
mod resize;
mod reverse;
mod roi_align;
mod scatter;
mod select;
mod softmax;
pub(crate) mod special;
mod suppress;
pub(crate) mod top_k;
mod unary;

pub use convert::convert;

use millstream_core::{DType, Distribution, Epilogue, Op, Scalar, UnaryOp};

use crate::value::read_at;
use crate::{Case, Dense, Expected, Value, accuracy, small};

/// What is expected of each element that a case gives, in row-major order of its output, or of its
/// input for a download. Several outputs come one after the other.
pub fn reference(case: &Case) -> Vec<Expected> {
    reference_of(case, case.input_values())
}

/// The same for other inputs than those of the case.
pub(crate) fn reference_of(case: &Case, inputs: Vec<Dense>) -> Vec<Expected> {
    let Some(output) = case.outputs().first().map(|output| output.layout) else {
        return inputs[0].values.iter().map(|&value| Expected::Exact(value)).collect();
    };
    let (dtype, shape) = (output.dtype(), output.shape());
    match &case.op {
        Op::Fill { value, spec: _ } => vec![fill(*value, dtype); output.elements()],
        Op::Iota { params } => iota::apply(params),
        Op::Copy { dtype: _, saturate } => {
            let same = inputs[0].dtype == dtype;
            let convert = |value: &Value| match dtype.is_storage() && !same {
                true => Expected::Exact(small::convert(dtype, *value, *saturate)),
                false => Expected::Exact(convert(*value, dtype)),
            };
            inputs[0].broadcast(shape).values.iter().map(convert).collect()
        }
        Op::Unary { op } => unary::apply(*op, &inputs[0].broadcast(shape)),
        Op::Binary { op } => {
            binary::apply(*op, &inputs[0].broadcast(shape), &inputs[1].broadcast(shape))
        }
        Op::Where => select::choose(&[0, 1, 2].map(|input: usize| inputs[input].broadcast(shape))),
        Op::Clip { min, max } => select::clip(*min, *max, &inputs[0].broadcast(shape)),
        Op::Chain { chain } => {
            let inputs: Vec<Dense> = inputs.iter().map(|input| input.broadcast(shape)).collect();
            chain::apply(chain, &inputs)
        }
        Op::Reduce { op, axes } => reduce::apply(*op, *axes, &inputs[0]),
        Op::CumSum { axis, exclusive, reverse, product } => {
            cumsum::apply(usize::from(*axis), [*exclusive, *reverse, *product], &inputs[0])
        }
        Op::Softmax { axis, log } => softmax::apply(usize::from(*axis), *log, &inputs[0]),
        Op::LayerNorm { axes, epsilon, weight, bias, moments } => {
            let mut rest = inputs[1..].iter();
            let weight = weight.then(|| rest.next().expect("weight"));
            let bias = bias.then(|| rest.next().expect("bias"));
            let (axes, epsilon) = (usize::from(*axes), f64::from(*epsilon));
            let mut expected = layer_norm::apply(axes, epsilon, &inputs[0], weight, bias);
            if *moments {
                expected.extend(layer_norm::moments(axes, epsilon, &inputs[0]));
            }
            expected
        }
        Op::RmsNorm { axes, epsilon, weight: _ } => {
            norms::rms(usize::from(*axes), f64::from(*epsilon), &inputs[0], inputs.get(1))
        }
        Op::GroupNorm { groups, epsilon, weight, bias } => {
            let mut rest = inputs[1..].iter();
            let weight = weight.then(|| rest.next().expect("weight"));
            let bias = bias.then(|| rest.next().expect("bias"));
            norms::group(*groups as usize, f64::from(*epsilon), &inputs[0], weight, bias)
        }
        Op::MatMul { epilogue } => {
            let Epilogue { scale, bias, residual, activation } = *epilogue;
            let mut rest = inputs[2..].iter();
            let mut sums: Vec<Dense> = Vec::new();
            for _ in 0..usize::from(bias) + usize::from(residual) {
                sums.push(rest.next().expect("bias or residual").broadcast(shape));
            }
            if dtype.is_int() {
                return matmul::whole(shape, &inputs[0], &inputs[1], &sums);
            }
            matmul::apply(shape, &inputs[0], &inputs[1], &sums, f64::from(scale), activation)
        }
        Op::Pool { params } => pool::apply(params, shape, &inputs[0]),
        Op::Gather { axis } => gather::along(usize::from(*axis), &inputs[0], &inputs[1]),
        Op::Embedding => gather::along(0, &inputs[0], &inputs[1]),
        Op::GatherElements { axis } => gather::elements(usize::from(*axis), &inputs[0], &inputs[1]),
        Op::GatherNd { batch_axes } => {
            gather::tuples(usize::from(*batch_axes), &inputs[0], &inputs[1])
        }
        Op::ScatterElements { axis, reduction } => {
            scatter::elements(usize::from(*axis), *reduction, &inputs[0], &inputs[1], &inputs[2])
        }
        Op::ScatterNd { reduction } => {
            scatter::tuples(*reduction, &inputs[0], &inputs[1], &inputs[2])
        }
        Op::CacheWrite { axis, circular: _, positions: _ } => {
            cache::write(usize::from(*axis), &inputs[0], &inputs[1], inputs.get(2))
        }
        Op::Rope { interleaved, positions } => cache::rope(*interleaved, *positions, &inputs),
        Op::TopK { axis, k, largest, sorted } => {
            top_k::apply(usize::from(*axis), *k, *largest, *sorted, &inputs[0])
        }
        Op::Resize { params } => resize::apply(params, shape, &inputs[0]),
        Op::Pad { params } => pad::apply(params, shape, &inputs[0]),
        Op::DeformConv { params } => deform_conv::apply(params, shape, &inputs),
        Op::GridSample { mode, padding, align_corners } => {
            let way = (*mode, *padding);
            grid_sample::apply(way, *align_corners, shape, &inputs[0], &inputs[1])
        }
        Op::RoiAlign { params } => {
            roi_align::apply(*params, shape, [&inputs[0], &inputs[1], &inputs[2]])
        }
        Op::Reverse { axes, batch_axis } => {
            reverse::apply(*axes, batch_axis.map(usize::from), &inputs[0], inputs.get(1))
        }
        Op::NonZero => compact::nonzero(&inputs[0]),
        Op::Compress { axis } => compact::compress(axis.map(usize::from), &inputs[0], &inputs[1]),
        Op::Unique { axis, sorted } => compact::unique(axis.map(usize::from), *sorted, &inputs[0]),
        Op::NonMaxSuppression { most, overlap, score, centered } => {
            suppress::apply(*most, *overlap, *score, *centered, &inputs)
        }
        Op::Conv { params, epilogue } => {
            conv::apply(&conv::Window { transposed: false, params, shape }, &inputs, *epilogue)
        }
        Op::ConvTranspose { params, epilogue } => {
            conv::apply(&conv::Window { transposed: true, params, shape }, &inputs, *epilogue)
        }
        Op::Attention { params } => attention::apply(params, &inputs),
        Op::Recurrent { params } => recurrent::apply(params, &inputs),
        Op::Dft { axis, inverse, onesided, length: _ } => {
            fourier::transform(usize::from(*axis), *inverse, *onesided, &inputs[0], shape)
        }
        Op::Stft { frame, hop, onesided: _, window: _ } => {
            fourier::frames(*frame as usize, *hop as usize, &inputs[0], inputs.get(1), shape)
        }
        Op::Quantize { axis, dtype: _, zero: _, block } => {
            quantize::apply((axis.map(usize::from), *block), false, &inputs, dtype)
        }
        Op::Dequantize { axis, dtype: _, zero: _, block } => {
            quantize::apply((axis.map(usize::from), *block), true, &inputs, dtype)
        }
        Op::DynamicQuantize { range, dtype: _ } => dynamic::apply(*range, &inputs[0], dtype),
        Op::MatMulBlocks { bits, block, zeros, epilogue } => {
            let few = blocks::FewBits { bits: *bits, block: usize::from(*block), zeros: *zeros };
            blocks::apply(few, shape, &inputs, epilogue)
        }
        Op::MatMulInteger { a_zero, b_zero, rescale } => {
            let sums = quantize::product(shape, &inputs, *a_zero, *b_zero);
            let rest = &inputs[2 + usize::from(*a_zero) + usize::from(*b_zero)..];
            match rescale {
                Some(rescale) => rescale::of_product(rescale, shape, &sums, rest),
                None => sums,
            }
        }
        Op::ConvInteger { params, src_zero, weight_zero, rescale } => {
            let window = conv::Window { transposed: false, params, shape };
            let sums = conv::integers(&window, &inputs, *src_zero, *weight_zero);
            let rest = &inputs[2 + usize::from(*src_zero) + usize::from(*weight_zero)..];
            match rescale {
                Some(rescale) => rescale::of_conv(rescale, shape, &sums, rest),
                None => sums,
            }
        }
        Op::Random { distribution, seed: _, offset: _, spec: _ } => {
            vec![random_range(*distribution); output.elements()]
        }
        Op::Upload { source: _, spec: _ } => {
            let value = |at| Expected::Exact(read_at(dtype, &case.host, at));
            (0..output.elements()).map(value).collect()
        }
        Op::Timestamp => vec![Expected::Between { low: 0.0, high: i64::MAX as f64 }],
        Op::Download { target: _ } => unreachable!("a download has no output"),
        Op::PackWeights { bytes: _ } | Op::MatMulPacked { columns: _, epilogue: _ } => {
            unreachable!(
                "what packed weights look like is the device's own affair, so no case has them"
            )
        }
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
        Scalar::Int(value) => Value::Int(value.into()),
        Scalar::UInt(value) => Value::Int(value.into()),
        Scalar::Bool(value) => Value::Int(value.into()),
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
        A::ScaledHardSwish { scale, shift } => {
            f64::from(scale) * unary::float(UnaryOp::HardSwish, x) + f64::from(shift)
        }
        A::Clip { .. } if x.is_nan() => x,
        A::Clip { min, max } => x.max(f64::from(min)).min(f64::from(max)),
    };
    near(value, accuracy::activation(kind, dtype, x, value, error))
}
