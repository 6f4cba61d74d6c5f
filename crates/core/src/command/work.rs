//! How much a Command has to do.

use super::{Command, Op, Operand, ResizeMode, ResizeParams};
use crate::size::product;

/// This many multiply-adds count as one operation: kernels do about that many at a time.
const MULTIPLY_ADDS: u128 = 16;

impl<B> Command<B> {
    /// An estimate of the work of this Command, in operations on single numbers. Each read or write of an element
    /// counts as one; an axis that repeats counts with its size. 16 multiply-adds of a matrix product, convolution,
    /// attention or recurrent layer count as one. The estimate depends on shapes and parameters alone. It is
    /// `u64::MAX` if it would be larger.
    ///
    /// It is used to bound the time of a Command, not to predict it.
    pub fn work(&self) -> u64 {
        u64::try_from(self.operations()).unwrap_or(u64::MAX)
    }

    /// Whether the work is more than `most`. `bytes` is the dense size of all operands.
    pub(crate) fn is_more_work(&self, bytes: usize, most: u64) -> bool {
        // These touch each element once. An element has a byte or more, but for 4-bit numbers, whose count
        // may be twice the bytes: near enough for a bound, and nothing is counted.
        let is_light = matches!(
            self.op,
            Op::Fill { .. } | Op::Copy { .. } | Op::Unary { .. } | Op::Binary { .. }
        );
        !(is_light && bytes as u64 <= most) && self.work() > most
    }

    fn operations(&self) -> u128 {
        let (outputs, inputs) = (self.outputs(), self.inputs());
        match &self.op {
            Op::Fill { .. }
            | Op::Iota { .. }
            | Op::Copy { .. }
            | Op::Unary { .. }
            | Op::Binary { .. }
            | Op::Where
            | Op::Clip { .. }
            | Op::Reduce { .. }
            | Op::CumSum { .. }
            | Op::Softmax { .. }
            | Op::LayerNorm { .. }
            | Op::RmsNorm { .. }
            | Op::GroupNorm { .. }
            | Op::Quantize { .. }
            | Op::Dequantize { .. }
            | Op::CacheWrite { .. }
            | Op::Rope { .. }
            | Op::Random { .. }
            | Op::Reverse { .. }
            | Op::Timestamp => elements(&self.operands),
            Op::Chain { chain } => {
                elements(&self.operands) + times(&[of(&outputs[0]), chain.steps().len()])
            }
            // Each element is read and written.
            Op::Upload { .. } | Op::Download { .. } | Op::PackWeights { .. } => {
                2 * elements(outputs).max(elements(inputs))
            }
            // The source is read twice: once for its range.
            Op::DynamicQuantize { .. } => elements(&self.operands) + elements(inputs),
            Op::Pad { .. } => 2 * elements(outputs),
            // Each element is read twice.
            Op::NonZero => elements(&self.operands) + elements(inputs),
            Op::Compress { .. } => elements(&self.operands) + elements(&inputs[1..]),
            Op::Unique { .. } => {
                let comparisons = logarithm(of(&outputs[1]));
                elements(outputs) + elements(inputs).saturating_mul(comparisons)
            }
            // Every selected box is compared with all others of its class.
            Op::NonMaxSuppression { .. } => {
                let boxes = inputs[1].layout.shape()[2];
                let rows = outputs[0].layout.shape()[0];
                elements(&self.operands).saturating_add(times(&[rows, boxes]))
            }
            // Only selected elements of the first input are read.
            Op::Gather { .. } | Op::GatherElements { .. } | Op::GatherNd { .. } | Op::Embedding => {
                2 * elements(outputs) + elements(&inputs[1..])
            }
            // The last input is read and combined with the old values.
            Op::ScatterElements { .. } | Op::ScatterNd { .. } => {
                elements(&self.operands) + elements(&inputs[2..])
            }
            Op::MatMul { .. } | Op::MatMulInteger { .. } => {
                elements(&self.operands) + multiply_adds(&[of(&outputs[0]), k_of(&inputs[0])])
            }
            Op::MatMulPacked { .. } => {
                let size = outputs[0].layout.dtype().size() as u128;
                let packed = of(&inputs[1]) as u128 / size;
                let others = elements(outputs) + elements(&inputs[..1]) + elements(&inputs[2..]);
                others + packed + multiply_adds(&[of(&outputs[0]), k_of(&inputs[0])])
            }
            // Each weight counts once more, for unpacking it.
            Op::MatMulBlocks { .. } => {
                let (rows, k) = (of(&outputs[0]), k_of(&inputs[0]));
                let weights = times(&[inputs[1].layout.shape()[0], k]);
                elements(&self.operands) + weights + multiply_adds(&[rows, k])
            }
            // Each element of the output is a sum over the weights of its channel. In a transposed convolution, each
            // element of the input is added to that many outputs.
            Op::Conv { .. } | Op::ConvInteger { .. } => {
                elements(&self.operands)
                    + multiply_adds(&[of(&outputs[0]), per_channel(&inputs[1])])
            }
            Op::ConvTranspose { .. } => {
                elements(&self.operands) + multiply_adds(&[of(&inputs[0]), per_channel(&inputs[1])])
            }
            Op::Pool { params } => {
                let taps = params.kernel.iter().take(params.spatial.into());
                let taps = taps.fold(1u128, |taps, &size| taps.saturating_mul(size.into()));
                elements(outputs).saturating_add(taps.saturating_mul(of(&outputs[0]) as u128))
            }
            Op::TopK { axis, .. } => {
                let comparisons = logarithm(outputs[0].layout.shape()[usize::from(*axis)]);
                elements(outputs) + elements(inputs).saturating_mul(comparisons)
            }
            // Channels that share offsets share the positions of taps. Each tap is interpolated from four elements.
            Op::DeformConv { params } => {
                let channels = inputs[0].layout.shape()[1] / params.offset_groups.max(1) as usize;
                let samples = times(&[of(&inputs[2]) / 2, channels]);
                elements(&self.operands)
                    .saturating_add(samples.saturating_mul(4))
                    .saturating_add(multiply_adds(&[of(&outputs[0]), per_channel(&inputs[1])]))
            }
            Op::GridSample { mode, .. } => {
                let axes = inputs[0].layout.rank().saturating_sub(2) as u32;
                let taps = (mode.taps() as u128).saturating_pow(axes);
                elements(outputs).saturating_mul(taps + 8)
            }
            // If the data decides on the number of samples, they are at least half an element apart, and samples
            // outside are skipped.
            Op::RoiAlign { params } if params.samples == 0 => {
                let (src, dst) = (inputs[0].layout.shape(), outputs[0].layout.shape());
                let [high, wide] = [src[2], src[3]].map(|size| size.saturating_mul(2).max(1));
                let samples = times(&[dst[0], dst[1], high, wide]);
                elements(outputs).saturating_mul(8).saturating_add(samples.saturating_mul(4))
            }
            Op::RoiAlign { params } => {
                let samples = u128::from(params.samples);
                elements(outputs).saturating_mul(4 * samples * samples + 8)
            }
            Op::Resize { params } => {
                let taps = taps(params, inputs[0].layout.rank());
                elements(outputs).saturating_mul(taps.saturating_add(1))
            }
            Op::Attention { .. } => {
                let (query, key) = (inputs[0].layout.shape(), inputs[1].layout.shape());
                let value = inputs[2].layout.shape();
                let scores = [query[0], query[1], query[2], key[2]];
                let [batch, heads, queries, keys] = scores;
                let sums = multiply_adds(&[batch, heads, queries, keys, query[3] + value[3]]);
                elements(&self.operands).saturating_add(times(&scores)).saturating_add(sums)
            }
            Op::Recurrent { .. } => {
                let (src, weight) = (inputs[0].layout.shape(), inputs[2].layout.shape());
                let [time, batch, input] = [src[0], src[1], src[2]];
                let [directions, rows, hidden] = [weight[0], weight[1], weight[2]];
                let gates = times(&[time, batch, directions, rows]);
                let sums = multiply_adds(&[time, batch, directions, rows, input + hidden]);
                elements(&self.operands).saturating_add(gates).saturating_add(sums)
            }
            Op::Dft { axis, .. } => {
                let axis = usize::from(*axis);
                let (from, to) = (inputs[0].layout.shape(), outputs[0].layout.shape());
                let length = from[axis].max(to[axis]);
                let rows = product(&from[..axis]);
                let behind = product(&from[axis + 1..from.len() - 1]);
                transforms(&[rows, behind], length)
            }
            Op::Stft { frame, .. } => {
                let shape = outputs[0].layout.shape();
                transforms(&shape[..2], *frame as usize)
            }
        }
    }
}

fn of<B>(operand: &Operand<B>) -> usize {
    operand.layout.elements()
}

/// The number of elements of all operands. Each has less than 2^64, and there are few operands, so the sum does not
/// overflow.
fn elements<B>(operands: &[Operand<B>]) -> u128 {
    operands.iter().map(|operand| of(operand) as u128).sum()
}

fn times(sizes: &[usize]) -> u128 {
    sizes.iter().fold(1, |product: u128, &size| product.saturating_mul(size as u128))
}

fn multiply_adds(sizes: &[usize]) -> u128 {
    times(sizes) / MULTIPLY_ADDS
}

/// The size of the last axis.
fn k_of<B>(operand: &Operand<B>) -> usize {
    operand.layout.shape().last().copied().unwrap_or(1)
}

/// The number of weights of one channel, where channels are the first axis.
fn per_channel<B>(weight: &Operand<B>) -> usize {
    product(&weight.layout.shape()[1..])
}

/// The number of binary digits.
fn logarithm(number: usize) -> u128 {
    u128::from(number.max(1).ilog2()) + 1
}

/// The work of this many fast Fourier transforms of complex numbers.
fn transforms(count: &[usize], length: usize) -> u128 {
    let operations = 2 * (length as u128) * logarithm(length);
    times(count).saturating_mul(operations)
}

/// How many input elements make one element of a resized output.
fn taps(params: &ResizeParams, rank: usize) -> u128 {
    let filter = match params.mode {
        ResizeMode::Nearest(_) => return 1,
        ResizeMode::Linear => 2.0,
        ResizeMode::Cubic(_) => 4.0,
    };
    let each = params.scales[..rank].iter().map(|&scale| {
        // An axis that keeps its size needs no filter.
        let filter = if scale == 1.0 { 1.0 } else { filter };
        if params.antialias && scale < 1.0 { filter / scale } else { filter }
    });
    // The conversion from floating point saturates.
    each.product::<f64>() as u128
}

#[cfg(test)]
mod tests;
