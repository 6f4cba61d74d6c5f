//! When two operations are equal, which replay depends on.
//!
//! Every field is named, without `..`: a field that is added later and forgotten here does not compile. Numbers are
//! compared by their bits: 0 equals -0, but operations with them give different results.

use std::hash::{Hash, Hasher};

use smallvec::SmallVec;

use super::{
    Activation, AttentionParams, ChainOp, ChainStep, Distribution, Epilogue, IotaParams, Op,
    PadMode, PadParams, RecurrentParams, RecurrentVariant, Rescale, ResizeMode, ResizeParams,
    RoiAlignParams, UnaryOp,
};
use crate::{DType, Scalar};

/// Feeds the words of an operation to a hasher.
struct Words<'a, H: Hasher>(&'a mut H);

impl<H: Hasher> Words<'_, H> {
    fn add(&mut self, value: impl Hash) {
        value.hash(self.0);
    }

    fn float(&mut self, value: f32) {
        self.add(value.to_bits());
    }

    fn scalar(&mut self, value: Scalar) {
        match value {
            Scalar::Float(value) => self.add((0u8, value.to_bits())),
            Scalar::Int(value) => self.add((1u8, value)),
            Scalar::Bool(value) => self.add((2u8, value)),
            Scalar::UInt(value) => self.add((3u8, value)),
        }
    }

    fn limit(&mut self, value: Option<Scalar>) {
        self.add(value.is_some());
        if let Some(value) = value {
            self.scalar(value);
        }
    }

    fn activation(&mut self, activation: Activation) {
        self.add(std::mem::discriminant(&activation));
        match activation {
            Activation::LeakyRelu { slope } => self.float(slope),
            Activation::Clip { min, max } => [min, max].into_iter().for_each(|x| self.float(x)),
            Activation::ScaledHardSwish { scale, shift } => {
                [scale, shift].into_iter().for_each(|x| self.float(x));
            }
            Activation::None
            | Activation::Relu
            | Activation::Gelu
            | Activation::GeluTanh
            | Activation::Silu
            | Activation::Sigmoid
            | Activation::Tanh
            | Activation::HardSwish => {}
        }
    }

    fn rescale(&mut self, rescale: Option<Rescale>) {
        self.add(rescale.is_some());
        let Some(Rescale { dtype, bias, residual, activation, zero }) = rescale else { return };
        self.add((dtype, bias, residual, zero));
        self.activation(activation);
    }

    fn epilogue(&mut self, epilogue: Epilogue) {
        let Epilogue { scale, bias, residual, activation } = epilogue;
        self.add((bias, residual));
        self.float(scale);
        self.activation(activation);
    }

    fn unary(&mut self, op: UnaryOp) {
        use UnaryOp::*;
        self.add(std::mem::discriminant(&op));
        match op {
            HardSigmoid { alpha: a, beta: b }
            | Selu { alpha: a, gamma: b }
            | Shrink { lambda: a, bias: b } => [a, b].into_iter().for_each(|x| self.float(x)),
            LeakyRelu { slope: a }
            | Elu { alpha: a }
            | Celu { alpha: a }
            | ThresholdedRelu { alpha: a } => self.float(a),
            IsInf { positive, negative } => self.add((positive, negative)),
            Abs | Neg | Sign | Relu | Exp | Expm1 | Log | Log1p | Log2 | Sqrt | Rsqrt
            | Reciprocal | Square | Sin | Cos | Tan | Asin | Acos | Atan | Sinh | Cosh | Tanh
            | Asinh | Acosh | Atanh | Erf | Floor | Ceil | Round | Trunc | Sigmoid | HardSwish
            | Silu | Gelu | GeluTanh | Softplus | Softsign | Mish | IsNan | Not => {}
        }
    }

    fn step(&mut self, step: &ChainStep) {
        let op = step.op();
        self.add(std::mem::discriminant(&op));
        match op {
            ChainOp::Cast { dtype } => self.add(dtype),
            ChainOp::Unary { op } => self.unary(op),
            ChainOp::Binary { op } => self.add(op),
            ChainOp::Where => {}
            ChainOp::Clip { min, max } => {
                self.limit(min);
                self.limit(max);
            }
        }
        self.add(step.terms());
    }

    fn distribution(&mut self, distribution: Distribution) {
        let (kind, first, second) = match distribution {
            Distribution::Uniform { low, high } => (0u8, low, high),
            Distribution::Normal { mean, deviation } => (1, mean, deviation),
        };
        self.add(kind);
        self.float(first);
        self.float(second);
    }

    fn resize(&mut self, params: &ResizeParams) {
        let ResizeParams {
            mode,
            coordinates,
            scales,
            sizes,
            region,
            extrapolation,
            exclude_outside,
            antialias,
        } = params;
        match *mode {
            ResizeMode::Nearest(rounding) => self.add((0u8, rounding)),
            ResizeMode::Linear => self.add(1u8),
            ResizeMode::Cubic(coefficient) => {
                self.add(2u8);
                self.float(coefficient);
            }
        }
        self.add((coordinates, exclude_outside, antialias, sizes));
        scales.iter().for_each(|scale| self.add(scale.to_bits()));
        for (start, end) in region {
            self.float(*start);
            self.float(*end);
        }
        self.float(*extrapolation);
    }

    fn pad(&mut self, params: &PadParams) {
        let PadParams { mode, before, after } = params;
        self.add(std::mem::discriminant(mode));
        match mode {
            PadMode::Constant(value) => self.scalar(*value),
            PadMode::Edge | PadMode::Reflect | PadMode::Wrap => {}
        }
        self.add((before, after));
    }

    fn recurrent(&mut self, params: &RecurrentParams) {
        let RecurrentParams {
            cell,
            direction,
            bias,
            initial_hidden,
            initial_cell,
            lengths,
            variant,
        } = params;
        self.add((cell, direction, bias, initial_hidden, initial_cell, lengths));
        let RecurrentVariant {
            clip,
            input_forget,
            activations,
            peepholes,
            quantized,
            zeros,
            rounded,
        } = variant;
        self.add((clip.map(f32::to_bits), input_forget, peepholes, quantized, zeros, rounded));
        self.add(activations.is_some());
        for activation in activations.iter().flatten().flatten() {
            let (kind, alpha, beta) = activation.parts();
            self.add((kind, alpha.to_bits(), beta.to_bits()));
        }
    }

    fn attention(&mut self, params: AttentionParams) {
        let AttentionParams { scale, softcap, window, mask, lengths } = params;
        self.add((window, mask, lengths, softcap.map(f32::to_bits)));
        self.float(scale);
    }
}

impl Hash for Op {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut words = Words(state);
        words.add(self.kind());
        match self {
            Op::Fill { value, spec } => {
                words.scalar(*value);
                words.add(spec);
            }
            Op::Iota { params } => {
                let IotaParams { start, step, axis, spec } = **params;
                words.scalar(start);
                words.scalar(step);
                words.add((axis, spec));
            }
            Op::Copy { dtype, saturate } => words.add((dtype, saturate)),
            Op::Unary { op } => words.unary(*op),
            Op::Binary { op } => words.add(op),
            Op::Where | Op::Embedding | Op::NonZero | Op::Timestamp => {}
            Op::Clip { min, max } => {
                words.limit(*min);
                words.limit(*max);
            }
            Op::Chain { chain } => words.add(chain),
            Op::Reduce { op, axes } => words.add((op, axes)),
            Op::CumSum { axis, exclusive, reverse, product } => {
                words.add((axis, exclusive, reverse, product));
            }
            Op::Softmax { axis, log } => words.add((axis, log)),
            Op::LayerNorm { axes, epsilon, weight, bias, moments } => {
                words.add((axes, weight, bias, moments));
                words.float(*epsilon);
            }
            Op::RmsNorm { axes, epsilon, weight } => {
                words.add((axes, weight));
                words.float(*epsilon);
            }
            Op::GroupNorm { groups, epsilon, weight, bias } => {
                words.add((groups, weight, bias));
                words.float(*epsilon);
            }
            Op::MatMul { epilogue } => words.epilogue(*epilogue),
            Op::PackWeights { bytes } => words.add(bytes),
            Op::MatMulPacked { columns, epilogue } => {
                words.add(columns);
                words.epilogue(*epilogue);
            }
            Op::MatMulBlocks { bits, block, zeros, epilogue } => {
                words.add((bits, block, zeros));
                words.epilogue(*epilogue);
            }
            Op::Conv { params, epilogue } | Op::ConvTranspose { params, epilogue } => {
                words.add(params);
                words.epilogue(*epilogue);
            }
            Op::Pool { params } => words.add(params),
            Op::DeformConv { params } => words.add(params),
            Op::Gather { axis } | Op::GatherElements { axis } => words.add(axis),
            Op::GatherNd { batch_axes } => words.add(batch_axes),
            Op::ScatterElements { axis, reduction } => words.add((axis, reduction)),
            Op::ScatterNd { reduction } => words.add(reduction),
            Op::CacheWrite { axis, circular, positions } => words.add((axis, circular, positions)),
            Op::Rope { interleaved, positions } => words.add((interleaved, positions)),
            Op::TopK { axis, k, largest, sorted } => words.add((axis, k, largest, sorted)),
            Op::Resize { params } => words.resize(params),
            Op::Pad { params } => words.pad(params),
            Op::Reverse { axes, batch_axis } => words.add((axes, batch_axis)),
            Op::GridSample { mode, padding, align_corners } => {
                words.add((mode, padding, align_corners));
            }
            Op::RoiAlign { params } => {
                let RoiAlignParams { size, samples, scale, mode, half_pixel } = *params;
                words.add((size, samples, mode, half_pixel));
                words.float(scale);
            }
            Op::Compress { axis } => words.add(axis),
            Op::Unique { axis, sorted } => words.add((axis, sorted)),
            Op::NonMaxSuppression { most, overlap, score, centered } => {
                words.add((most, centered, score.is_some()));
                words.float(*overlap);
                words.float(score.unwrap_or(0.0));
            }
            Op::Attention { params } => words.attention(*params),
            Op::Recurrent { params } => words.recurrent(params),
            Op::Dft { axis, inverse, onesided, length } => {
                words.add((axis, inverse, onesided, length));
            }
            Op::Stft { frame, hop, onesided, window } => words.add((frame, hop, onesided, window)),
            Op::Quantize { axis, dtype, zero, block }
            | Op::Dequantize { axis, dtype, zero, block } => {
                words.add((axis, dtype, zero, block));
            }
            Op::DynamicQuantize { range, dtype } => words.add((range, dtype)),
            Op::MatMulInteger { a_zero, b_zero, rescale } => {
                words.add((a_zero, b_zero));
                words.rescale(*rescale);
            }
            Op::ConvInteger { params, src_zero, weight_zero, rescale } => {
                words.add((params, src_zero, weight_zero));
                words.rescale(*rescale);
            }
            Op::Random { distribution, seed, offset, spec } => {
                words.add((seed, offset, spec));
                words.distribution(*distribution);
            }
            Op::Upload { source, spec } => words.add((source.identity(), source.len(), spec)),
            Op::Download { target } => words.add((target.identity(), target.len())),
        }
    }
}

/// Keeps the words themselves in place of a hash.
#[derive(Default, PartialEq)]
struct Collected(SmallVec<[u8; 256]>);

impl Hasher for Collected {
    fn finish(&self) -> u64 {
        0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

/// A chain as bytes. They are collected once, when the chain is made.
pub(super) fn chain_words(inputs: &[DType], steps: &[ChainStep]) -> Box<[u8]> {
    let mut collected = Collected::default();
    let mut words = Words(&mut collected);
    words.add(inputs);
    steps.iter().for_each(|step| words.step(step));
    collected.0.into_boxed_slice()
}

impl PartialEq for Op {
    fn eq(&self, other: &Self) -> bool {
        if let (Op::Chain { chain }, Op::Chain { chain: other }) = (self, other) {
            return chain == other;
        }
        let words = |op: &Op| {
            let mut collected = Collected::default();
            op.hash(&mut collected);
            collected
        };
        self.kind() == other.kind() && words(self) == words(other)
    }
}

impl Eq for Op {}
