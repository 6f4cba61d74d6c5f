//! How much a Command has to do.

use super::{Command, Op, Operand, ResizeMode, ResizeParams};
use crate::size::product;

/// Multiply-adds that count as one operation: kernels do that many at a time.
const MULTIPLY_ADDS: u128 = 16;

impl<B> Command<B> {
    /// An estimate of what the Command has to do, in operations on single numbers: one for each element that
    /// is read or written, as often as it is (a repeated axis counts with its size), and one for 16
    /// multiply-adds of a matrix product, convolution, attention or recurrent layer. It depends on shapes
    /// and parameters alone, and is `u64::MAX` where there is more to do than that.
    ///
    /// For bounds on how long a Command may take, not for predictions of how long it does.
    pub fn work(&self) -> u64 {
        u64::try_from(self.operations()).unwrap_or(u64::MAX)
    }

    /// Whether that is more than `most`. `bytes` are those that its operands hold.
    pub(crate) fn is_more_work(&self, bytes: usize, most: u64) -> bool {
        // These touch each element once, and an element has at least one byte: no need to count.
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
            // Each element is read in one place and written in another.
            Op::Upload { .. } | Op::Download { .. } | Op::PackWeights { .. } => {
                2 * elements(outputs).max(elements(inputs))
            }
            // The source is read for its range, and again.
            Op::DynamicQuantize { .. } => elements(&self.operands) + elements(inputs),
            Op::Pad { .. } => 2 * elements(outputs),
            // Each element is looked at twice.
            Op::NonZero => elements(&self.operands) + elements(inputs),
            Op::Compress { .. } => elements(&self.operands) + elements(&inputs[1..]),
            Op::Unique { .. } => {
                let comparisons = logarithm(of(&outputs[1]));
                elements(outputs) + elements(inputs).saturating_mul(comparisons)
            }
            // Every box that is selected is compared with all others of its class.
            Op::NonMaxSuppression { .. } => {
                let boxes = inputs[1].layout.shape()[2];
                let rows = outputs[0].layout.shape()[0];
                elements(&self.operands).saturating_add(times(&[rows, boxes]))
            }
            // Of the first input only what is asked for is read.
            Op::Gather { .. } | Op::GatherElements { .. } | Op::GatherNd { .. } | Op::Embedding => {
                2 * elements(outputs) + elements(&inputs[1..])
            }
            // The last input is read, and meets what is there.
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
            // Weights count once, and once more for taking them out of bytes.
            Op::MatMulBlocks { .. } => {
                let (rows, k) = (of(&outputs[0]), k_of(&inputs[0]));
                let weights = times(&[inputs[1].layout.shape()[0], k]);
                elements(&self.operands) + weights + multiply_adds(&[rows, k])
            }
            // Each element of the output is a sum over the weights of its channel, and of a transposed one
            // each element of the input goes to as many.
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
            // Channels that share offsets find each tap at one place, between four elements.
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
            // Samples that the data decide on stand half an element apart or more, and those outside are left out.
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

/// Elements of all. Each has less than 2^64, and there are few.
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

/// Weights of one channel: of the first axis.
fn per_channel<B>(weight: &Operand<B>) -> usize {
    product(&weight.layout.shape()[1..])
}

/// How often a number can be halved, and once more.
fn logarithm(number: usize) -> u128 {
    u128::from(number.max(1).ilog2()) + 1
}

/// So many fast Fourier transforms of complex numbers.
fn transforms(count: &[usize], length: usize) -> u128 {
    let operations = 2 * (length as u128) * logarithm(length);
    times(count).saturating_mul(operations)
}

/// Elements that one element of a resized output is made of.
fn taps(params: &ResizeParams, rank: usize) -> u128 {
    let filter = match params.mode {
        ResizeMode::Nearest(_) => return 1,
        ResizeMode::Linear => 2.0,
        ResizeMode::Cubic(_) => 4.0,
    };
    let each = params.scales[..rank].iter().map(|&scale| {
        // An axis that stays as it is needs no filter.
        let filter = if scale == 1.0 { 1.0 } else { filter };
        if params.antialias && scale < 1.0 { filter / scale } else { filter }
    });
    // A conversion from floating point saturates.
    each.product::<f64>() as u128
}

#[cfg(test)]
#[path = "work_tests.rs"]
mod tests;
