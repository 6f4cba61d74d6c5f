//! How much a Command has to do.

use millstream_core::{BoundCommand, Op, Operand, RawBuffer};

/// Multiply-adds that count as one operation: kernels do that many at a time.
const MULTIPLY_ADDS: u64 = 16;

/// About how many operations a Command takes: one for each element that is moved or computed, one for 16
/// multiply-adds of products. More than fit are the most that do.
pub(crate) fn work_of(command: &BoundCommand) -> u64 {
    let (outputs, inputs) = (command.outputs(), command.inputs());
    let all = || sum(outputs).saturating_add(sum(inputs));
    let products = |factors: &[usize]| all().saturating_add(times(factors) / MULTIPLY_ADDS);
    match command.op() {
        Op::Fill { .. }
        | Op::Copy
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
        | Op::PackWeights
        | Op::ScatterElements { .. }
        | Op::ScatterNd { .. }
        | Op::Pad { .. }
        | Op::Quantize { .. }
        | Op::Dequantize { .. }
        | Op::Random { .. }
        | Op::Upload { .. }
        | Op::Download { .. }
        | Op::Timestamp => all(),
        // Of the first input only what is asked for is read.
        Op::Gather { .. } | Op::GatherElements { .. } | Op::GatherNd { .. } | Op::Embedding => {
            sum(outputs).saturating_add(sum(&inputs[1..]))
        }
        Op::MatMul { .. } | Op::MatMulPacked { .. } | Op::MatMulInteger { .. } => {
            products(&[of(&outputs[0]), inputs[0].layout.shape().last().copied().unwrap_or(1)])
        }
        Op::Conv { .. } | Op::ConvInteger { .. } => {
            products(&[of(&outputs[0]), per_channel(&inputs[1])])
        }
        Op::ConvTranspose { .. } => products(&[of(&inputs[0]), per_channel(&inputs[1])]),
        Op::Pool { params } => {
            let taps = params.kernel[..usize::from(params.spatial)].iter();
            taps.fold(sum(outputs), |work, &size| work.saturating_mul(size.into()))
        }
        Op::TopK { axis, .. } => {
            all().saturating_mul(logarithm(outputs[0].layout.shape()[usize::from(*axis)]))
        }
        // No output is made of more than the whole input, and each input counts in few of them.
        Op::Resize { .. } => sum(outputs).saturating_mul(8).saturating_add(sum(inputs)),
        Op::Attention { .. } => {
            let (query, value) = (inputs[0].layout.shape(), inputs[2].layout.shape());
            let size = query[3].saturating_add(value[3]);
            products(&[query[0], query[1], query[2], value[2], size])
        }
        Op::Recurrent { .. } => {
            let (src, weight) = (inputs[0].layout.shape(), inputs[2].layout.shape());
            let size = src[2].saturating_add(weight[2]);
            products(&[src[0], src[1], weight[0], weight[1], size])
        }
        Op::Dft { .. } => all().saturating_mul(logarithm(of(&outputs[0]))),
        Op::Stft { frame, .. } => all().saturating_mul(logarithm(*frame as usize)),
        // The device has no kernel for any other.
        _ => u64::MAX,
    }
}

fn of(operand: &Operand<RawBuffer>) -> usize {
    operand.layout.elements()
}

fn sum(operands: &[Operand<RawBuffer>]) -> u64 {
    operands.iter().fold(0, |sum: u64, operand| sum.saturating_add(of(operand) as u64))
}

fn times(factors: &[usize]) -> u64 {
    factors.iter().fold(1, |product: u64, &factor| product.saturating_mul(factor as u64))
}

fn per_channel(weight: &Operand<RawBuffer>) -> usize {
    weight.layout.shape()[1..].iter().fold(1, |product: usize, &size| product.saturating_mul(size))
}

fn logarithm(number: usize) -> u64 {
    u64::from(number.max(1).ilog2()) + 1
}
