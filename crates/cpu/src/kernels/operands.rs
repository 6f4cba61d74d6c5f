//! The operands of Commands as kernels take them.

use millstream_core::{
    BoundCommand, ConvOperands, MatMulBlocksOperands, Operand, RawBuffer, RecurrentOperands,
    Rescale,
};

use crate::kernels::int8_gemm::RescaleOperands;
use crate::kernels::{conv, index, matmul, recurrent};

/// What the sums of a product of integers meet, where they are rescaled.
pub(super) fn rescale_operands<'a>(
    rescale: Option<Rescale>,
    [a_scale, b_scale]: [Option<&'a Operand<RawBuffer>>; 2],
    [bias, residual]: [Option<&'a Operand<RawBuffer>>; 2],
    [dst_scale, dst_zero]: [Option<&'a Operand<RawBuffer>>; 2],
) -> Option<RescaleOperands<'a>> {
    let scales = [a_scale?, b_scale?];
    Some(RescaleOperands { rescale: rescale?, scales, bias, residual, dst_scale, dst_zero })
}

pub(super) fn blocks_operands(command: &BoundCommand) -> matmul::BlocksOperands<'_> {
    let MatMulBlocksOperands { dst, a, weights, scales, zeros, bias, residual } =
        MatMulBlocksOperands::of(command);
    matmul::BlocksOperands { dst, a, weights, scales, zeros, bias, residual }
}

pub(super) fn scatter_operands<'a>(
    outputs: &'a [Operand<RawBuffer>],
    inputs: &'a [Operand<RawBuffer>],
) -> index::ScatterOperands<'a> {
    index::ScatterOperands {
        dst: &outputs[0],
        src: &inputs[0],
        indices: &inputs[1],
        updates: &inputs[2],
    }
}

pub(super) fn conv_operands(command: &BoundCommand) -> conv::Operands<'_> {
    let ConvOperands { dst, src, weight, bias, residual } = ConvOperands::of(command);
    conv::Operands { dst, src, weight, bias, residual }
}

pub(super) fn recurrent_operands(command: &BoundCommand) -> recurrent::Operands<'_> {
    let operands = RecurrentOperands::of(command);
    recurrent::Operands {
        sequence: operands.sequence,
        last_hidden: operands.hidden,
        last_cell: operands.cell,
        src: operands.src,
        input_weight: operands.w_input,
        hidden_weight: operands.w_hidden,
        bias: operands.bias,
        initial_hidden: operands.hidden_0,
        initial_cell: operands.cell_0,
        lengths: operands.lengths,
        peepholes: operands.peepholes,
        scales: [operands.input_scale, operands.hidden_scale],
        zeros: [operands.input_zero, operands.hidden_zero],
    }
}
