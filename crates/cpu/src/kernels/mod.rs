//! The kernels of the CPU device: one function that executes one Command.
//!
//! A kernel splits its *outputs* in chunks whose size depends on the problem alone, and the order in
//! which one output element is computed depends neither on the chunk nor on its place in it. So
//! results have the same bits with any number of threads, and a row has the same bits in a batch of
//! any size.
//!
//! Each family of operations has a room of its own. What several of them use is in [`shared`].

mod attention;
mod binary;
mod cache;
mod chain;
mod compact;
mod conv;
mod copy;
mod cumsum;
mod dynamic;
mod fourier;
mod grid_sample;
mod group_norm;
mod host;
mod index;
mod int8_gemm;
mod iota;
mod matmul;
mod norm;
mod pad;
pub(crate) mod peak;
mod pool;
mod quantize;
mod random;
mod recurrent;
mod reduce;
mod resize;
mod reverse;
mod roi_align;
mod rope;
mod select;
mod shared;
mod softmax;
mod storage;
mod top_k;
mod unary;

use int8_gemm::RescaleOperands;
pub(crate) use matmul::packed_bytes;
pub use shared::fault::KernelFault;
pub use shared::parallel::{Parallel, Sequential};

pub(crate) use shared::scratch::empty_spare;

use millstream_core::{
    AttentionOperands, BoundCommand, CacheWriteOperands, ConvIntegerOperands, ConvOperands,
    DeformConvOperands, DynamicQuantizeOperands, MatMulBlocksOperands, MatMulIntegerOperands,
    MatMulOperands, NormOperands, Op, OpKind, Operand, PoolOperands, QuantizeOperands, RawBuffer,
    RecurrentOperands, ReverseOperands, RopeOperands, StftOperands,
};

/// Whether the CPU device has a kernel for this kind.
pub fn supports(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Fill
            | OpKind::Iota
            | OpKind::Copy
            | OpKind::Unary
            | OpKind::Binary
            | OpKind::Where
            | OpKind::Clip
            | OpKind::Chain
            | OpKind::Reduce
            | OpKind::CumSum
            | OpKind::Softmax
            | OpKind::LayerNorm
            | OpKind::RmsNorm
            | OpKind::GroupNorm
            | OpKind::MatMul
            | OpKind::Pool
            | OpKind::Gather
            | OpKind::GatherElements
            | OpKind::GatherNd
            | OpKind::ScatterElements
            | OpKind::ScatterNd
            | OpKind::CacheWrite
            | OpKind::Rope
            | OpKind::Embedding
            | OpKind::TopK
            | OpKind::Resize
            | OpKind::Pad
            | OpKind::Reverse
            | OpKind::DeformConv
            | OpKind::GridSample
            | OpKind::RoiAlign
            | OpKind::NonZero
            | OpKind::Compress
            | OpKind::Unique
            | OpKind::NonMaxSuppression
            | OpKind::Conv
            | OpKind::ConvTranspose
            | OpKind::Attention
            | OpKind::Recurrent
            | OpKind::Dft
            | OpKind::Stft
            | OpKind::Quantize
            | OpKind::Dequantize
            | OpKind::DynamicQuantize
            | OpKind::MatMulInteger
            | OpKind::ConvInteger
            | OpKind::PackWeights
            | OpKind::MatMulPacked
            | OpKind::MatMulBlocks
            | OpKind::Random
            | OpKind::Upload
            | OpKind::Download
            | OpKind::Timestamp
    )
}

/// Executes one Command and returns when it is done. `clock_ns` is what a timestamp writes.
///
/// # Errors
///
/// Data that makes the Command impossible, such as an index outside its axis, or scratch memory that is
/// not there. What the Command writes may then hold anything.
///
/// # Panics
///
/// A kind that is not [supported](supports).
///
/// # Safety
///
/// The addresses of operands are host pointers, aligned to 64 bytes and valid for the extent of the
/// operand; inputs are initialized. During the call no other thread touches what the Command writes,
/// nor writes what it reads. Operands of different buffers do not overlap. `parallel` runs each chunk
/// exactly once and has finished all when it returns.
pub unsafe fn execute(
    command: &BoundCommand,
    parallel: &dyn Parallel,
    clock_ns: i64,
) -> Result<(), KernelFault> {
    // SAFETY: passed on.
    let result = unsafe { execute_one(command, parallel, clock_ns) };
    trim_scratch();
    result
}

/// Gives back large scratch memory of the calling thread, which is done with its part of a Command.
pub(crate) fn trim_scratch() {
    shared::scratch::trim();
}

unsafe fn execute_one(
    command: &BoundCommand,
    parallel: &dyn Parallel,
    clock_ns: i64,
) -> Result<(), KernelFault> {
    let (outputs, inputs) = (command.outputs(), command.inputs());
    // SAFETY: every call passes on what the caller promises; the operands that each kernel expects
    // are those that the constructor of the operation put in this order.
    unsafe {
        match command.op() {
            Op::Fill { value, .. } => copy::fill(&outputs[0], *value, parallel),
            Op::Iota { params } => iota::iota(params, &outputs[0], parallel),
            Op::Copy { dtype: _, saturate } => {
                copy::cast(&outputs[0], &inputs[0], *saturate, parallel);
            }
            Op::Unary { op } => unary::unary(*op, &outputs[0], &inputs[0], parallel),
            Op::Binary { op } => {
                binary::binary(*op, &outputs[0], &inputs[0], &inputs[1], parallel);
            }
            Op::Where => {
                select::where_(&outputs[0], [&inputs[0], &inputs[1], &inputs[2]], parallel)
            }
            Op::Clip { min, max } => {
                select::clip(*min, *max, &outputs[0], &inputs[0], parallel);
            }
            Op::Chain { chain } => chain::chain(chain, &outputs[0], inputs, parallel)?,
            Op::Reduce { op, axes } => {
                reduce::reduce(*op, *axes, &outputs[0], &inputs[0], parallel);
            }
            Op::CumSum { axis, exclusive, reverse, product } => {
                let (axis, exclusive, reverse) = (usize::from(*axis), *exclusive, *reverse);
                let params = cumsum::Params { axis, exclusive, reverse, product: *product };
                cumsum::cumsum(params, &outputs[0], &inputs[0], parallel);
            }
            Op::Softmax { axis, log } => {
                softmax::softmax(usize::from(*axis), *log, &outputs[0], &inputs[0], parallel);
            }
            Op::LayerNorm { axes, epsilon, .. } => {
                let NormOperands { dst, src, weight, bias } = NormOperands::of(command);
                let (axes, epsilon) = (usize::from(*axes), *epsilon);
                let parameters = norm::Parameters { axes, epsilon, centered: true, weight, bias };
                norm::norm(&parameters, dst, src, parallel);
            }
            Op::RmsNorm { axes, epsilon, .. } => {
                let NormOperands { dst, src, weight, bias } = NormOperands::of(command);
                let (axes, epsilon) = (usize::from(*axes), *epsilon);
                let parameters = norm::Parameters { axes, epsilon, centered: false, weight, bias };
                norm::norm(&parameters, dst, src, parallel);
            }
            Op::GroupNorm { groups, epsilon, .. } => {
                let NormOperands { dst, src, weight, bias } = NormOperands::of(command);
                let group = group_norm::Parameters { groups: *groups as usize, weight, bias };
                group_norm::group_norm(&group, *epsilon, dst, src, parallel);
            }
            Op::MatMul { epilogue } => {
                let MatMulOperands { dst, a, b, bias, residual } = MatMulOperands::of(command);
                matmul::matmul(epilogue, dst, [a, b], bias, residual, parallel)?;
            }
            Op::Pool { params } => {
                let PoolOperands { dst, indices, src } = PoolOperands::of(command);
                pool::pool(params, dst, indices, src, parallel);
            }
            Op::Gather { axis } => {
                let axis = usize::from(*axis);
                index::gather(axis, &outputs[0], &inputs[0], &inputs[1], parallel)?;
            }
            Op::Embedding => index::gather(0, &outputs[0], &inputs[0], &inputs[1], parallel)?,
            Op::GatherElements { axis } => {
                let axis = usize::from(*axis);
                index::gather_elements(axis, &outputs[0], &inputs[0], &inputs[1], parallel)?;
            }
            Op::GatherNd { batch_axes } => {
                let axes = usize::from(*batch_axes);
                index::gather_nd(axes, &outputs[0], &inputs[0], &inputs[1], parallel)?;
            }
            Op::ScatterElements { axis, reduction } => {
                let operands = scatter_operands(outputs, inputs);
                index::scatter_elements(usize::from(*axis), *reduction, &operands, parallel)?;
            }
            Op::ScatterNd { reduction } => {
                index::scatter_nd(*reduction, &scatter_operands(outputs, inputs), parallel)?;
            }
            Op::CacheWrite { axis, circular, positions: _ } => {
                let CacheWriteOperands { dst, cache: old, update, positions } =
                    CacheWriteOperands::of(command);
                let how = (usize::from(*axis), *circular);
                cache::write(how, dst, [old, update], positions, parallel)?;
            }
            Op::Rope { interleaved, positions: _ } => {
                let RopeOperands { dst, src, cos, sin, positions } = RopeOperands::of(command);
                let operands = rope::Operands { dst, src, cos, sin, positions };
                rope::rope(*interleaved, &operands, parallel)?;
            }
            Op::TopK { axis, k: _, largest, sorted } => {
                let (axis, largest, sorted) = (usize::from(*axis), *largest, *sorted);
                let params = top_k::Params { axis, largest, sorted };
                top_k::top_k(params, &outputs[0], &outputs[1], &inputs[0], parallel)?;
            }
            Op::Resize { params } => resize::resize(params, &outputs[0], &inputs[0], parallel)?,
            Op::Pad { params } => pad::pad(params, &outputs[0], &inputs[0], parallel),
            Op::Reverse { axes, batch_axis } => {
                let ReverseOperands { dst, src, lengths } = ReverseOperands::of(command);
                let lengths = lengths.zip(batch_axis.map(usize::from));
                reverse::reverse(*axes, lengths, dst, src, parallel)?;
            }
            Op::NonZero => compact::nonzero(&outputs[0], &outputs[1], &inputs[0], parallel)?,
            Op::Compress { axis } => {
                let axis = axis.map(usize::from);
                compact::compress(
                    axis,
                    &outputs[0],
                    &outputs[1],
                    [&inputs[0], &inputs[1]],
                    parallel,
                )?;
            }
            Op::Unique { axis, sorted } => {
                let axis = axis.map(usize::from);
                compact::unique(axis, *sorted, outputs, &inputs[0], parallel)?;
            }
            Op::NonMaxSuppression { most, overlap, score, centered } => {
                let params = compact::NmsParams {
                    most: *most,
                    overlap: *overlap,
                    score: *score,
                    centered: *centered,
                };
                let operands = [&inputs[0], &inputs[1]];
                compact::non_max_suppression(params, &outputs[0], &outputs[1], operands, parallel)?;
            }
            Op::DeformConv { params } => {
                conv::deform_conv(params, &DeformConvOperands::of(command), parallel)?;
            }
            Op::GridSample { mode, padding, align_corners } => {
                let sampling = grid_sample::Sampling {
                    mode: *mode,
                    padding: *padding,
                    align_corners: *align_corners,
                };
                let operands = [&inputs[0], &inputs[1]];
                grid_sample::grid_sample(sampling, &outputs[0], operands, parallel);
            }
            Op::RoiAlign { params } => {
                let operands = [&inputs[0], &inputs[1], &inputs[2]];
                roi_align::roi_align(*params, &outputs[0], operands, parallel)?;
            }
            Op::Conv { params, epilogue } => {
                let operands = conv_operands(command);
                conv::conv(params, epilogue, &operands, parallel)?;
            }
            Op::ConvTranspose { params, epilogue } => {
                let operands = conv_operands(command);
                conv::conv_transpose(params, epilogue, &operands, parallel)?;
            }
            Op::Attention { params } => {
                let AttentionOperands { dst, query, key, value, mask, lengths } =
                    AttentionOperands::of(command);
                let inputs = [query, key, value];
                attention::attention(params, dst, inputs, mask, lengths, parallel)?;
            }
            Op::Recurrent { params } => {
                let operands = recurrent_operands(command);
                recurrent::recurrent(params, &operands, parallel)?;
            }
            Op::Dft { axis, inverse, onesided, length: _ } => {
                let axis = usize::from(*axis);
                fourier::dft(axis, *inverse, *onesided, &outputs[0], &inputs[0], parallel)?;
            }
            Op::Stft { frame, hop, .. } => {
                let StftOperands { dst, signal, window } = StftOperands::of(command);
                let (frame, hop) = (*frame as usize, *hop as usize);
                fourier::stft(frame, hop, dst, signal, window, parallel)?;
            }
            Op::Quantize { .. } => {
                for part in QuantizeOperands::of(command).parts(command.op()) {
                    quantize::quantize(&part, parallel);
                }
            }
            Op::Dequantize { .. } => {
                for part in QuantizeOperands::of(command).parts(command.op()) {
                    quantize::dequantize(&part, parallel);
                }
            }
            Op::DynamicQuantize { rows, .. } => {
                let DynamicQuantizeOperands { dst, scale, zero, src } =
                    DynamicQuantizeOperands::of(command);
                dynamic::quantize(*rows, dst, scale, zero, src, parallel);
            }
            Op::MatMulInteger { rescale, .. } => {
                let operands = MatMulIntegerOperands::of(command);
                let MatMulIntegerOperands { dst, a, b, a_zero, b_zero, .. } = operands;
                let scales = [operands.a_scale, operands.b_scale];
                let extras = rescale.zip(both(scales)).map(|(rescale, scales)| RescaleOperands {
                    rescale,
                    scales,
                    bias: operands.bias,
                    residual: operands.residual,
                    dst_scale: operands.dst_scale,
                    dst_zero: operands.dst_zero,
                });
                let (operands, zeros) = ([a, b], [a_zero, b_zero]);
                int8_gemm::matmul_integer(dst, operands, zeros, extras.as_ref(), parallel)?;
            }
            Op::ConvInteger { params, rescale, .. } => {
                let operands = ConvIntegerOperands::of(command);
                let ConvIntegerOperands { dst, src, weight, src_zero, weight_zero, .. } = operands;
                let scales = [operands.src_scale, operands.weight_scale];
                let extras = rescale.zip(both(scales)).map(|(rescale, scales)| RescaleOperands {
                    rescale,
                    scales,
                    bias: operands.bias,
                    residual: operands.residual,
                    dst_scale: operands.dst_scale,
                    dst_zero: operands.dst_zero,
                });
                let operands = conv::Operands { dst, src, weight, bias: None, residual: None };
                let zeros = [src_zero, weight_zero];
                conv::conv_integer(params, &operands, zeros, extras.as_ref(), parallel)?;
            }
            Op::PackWeights { .. } => matmul::pack_weights(&outputs[0], &inputs[0], parallel)?,
            Op::MatMulPacked { columns: _, epilogue } => {
                let MatMulOperands { dst, a, b, bias, residual } = MatMulOperands::of(command);
                matmul::matmul_packed(epilogue, dst, [a, b], bias, residual, parallel)?;
            }
            Op::MatMulBlocks { bits, block, zeros: _, epilogue } => {
                let operands = MatMulBlocksOperands::of(command);
                let operands = matmul::BlocksOperands {
                    dst: operands.dst,
                    a: operands.a,
                    weights: operands.weights,
                    scales: operands.scales,
                    zeros: operands.zeros,
                    bias: operands.bias,
                    residual: operands.residual,
                };
                let block = usize::from(*block);
                matmul::matmul_blocks(*bits, block, epilogue, &operands, parallel)?;
            }
            Op::Random { distribution, seed, offset, spec: _ } => {
                random::random(*distribution, *seed, *offset, &outputs[0], parallel);
            }
            Op::Upload { source, .. } => host::upload(&outputs[0], source, parallel),
            Op::Download { target } => host::download(target, &inputs[0], parallel),
            Op::Timestamp => host::timestamp(&outputs[0], clock_ns),
        }
    }
    Ok(())
}

/// Two operands that are both given, or neither.
fn both<T>([first, second]: [Option<T>; 2]) -> Option<[T; 2]> {
    Some([first?, second?])
}

fn scatter_operands<'a>(
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

fn conv_operands(command: &BoundCommand) -> conv::Operands<'_> {
    let ConvOperands { dst, src, weight, bias, residual } = ConvOperands::of(command);
    conv::Operands { dst, src, weight, bias, residual }
}

fn recurrent_operands(command: &BoundCommand) -> recurrent::Operands<'_> {
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

#[cfg(test)]
mod tests;
