//! The kernels of the CPU device: one function that executes one Command.
//!
//! A kernel splits its *outputs* in chunks whose size depends on the problem alone, and the order in
//! which one output element is computed depends neither on the chunk nor on its place in it. So
//! results have the same bits with any number of threads, and a row has the same bits in a batch of
//! any size.
//!
//! Each family of operations has a room of its own. What several of them use is in `shared`.

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
mod operands;
mod pad;
pub(crate) mod peak;
mod pool;
mod quantize;
mod quantize_packed;
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
mod supports;
mod top_k;
mod unary;

pub(crate) use matmul::packed_bytes;
use operands::{
    blocks_operands, conv_operands, recurrent_operands, rescale_operands, scatter_operands,
};
pub use shared::fault::KernelFault;
pub use shared::parallel::{Parallel, Sequential};
pub use supports::supports;

pub(crate) use shared::scratch::STORE as SCRATCH_STORE;
pub(crate) use shared::scratch::{free_idle as free_idle_scratch, lease as lease_scratch};

use millstream_core::{
    AttentionOperands, BoundCommand, CacheWriteOperands, ConvIntegerOperands, DeformConvOperands,
    DynamicQuantizeOperands, MatMulIntegerOperands, MatMulOperands, NormOperands, Op, PoolOperands,
    QuantizeOperands, ReverseOperands, RopeOperands, StftOperands,
};

/// Executes one Command and returns when it is done. `clock_ns` is what a timestamp writes.
///
/// # Errors
///
/// Data that makes the Command impossible, such as an index outside its axis, or scratch memory that is
/// not there. What the Command writes may then hold anything.
///
/// # Panics
///
/// A kind that is not [supported](fn@supports).
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

/// Refuses settings of kernels that say nothing.
pub(crate) fn check_settings() -> std::result::Result<(), String> {
    shared::simd::Isa::limit().map(|_| ())
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
                let (axes, epsilon) = (usize::from(*axes), *epsilon);
                let parameters = norm::Parameters { axes, epsilon, centered: true };
                norm::norm(&parameters, &NormOperands::of(command), parallel);
            }
            Op::RmsNorm { axes, epsilon, .. } => {
                let (axes, epsilon) = (usize::from(*axes), *epsilon);
                let parameters = norm::Parameters { axes, epsilon, centered: false };
                norm::norm(&parameters, &NormOperands::of(command), parallel);
            }
            Op::GroupNorm { groups, epsilon, .. } => {
                let NormOperands { dst, src, weight, bias, .. } = NormOperands::of(command);
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
                let what = index::Gather::Slices { axis: usize::from(*axis) };
                index::gather(what, &outputs[0], [&inputs[0], &inputs[1]], parallel)?;
            }
            Op::Embedding => {
                let what = index::Gather::Slices { axis: 0 };
                index::gather(what, &outputs[0], [&inputs[0], &inputs[1]], parallel)?;
            }
            Op::GatherElements { axis } => {
                let what = index::Gather::Elements { axis: usize::from(*axis) };
                index::gather(what, &outputs[0], [&inputs[0], &inputs[1]], parallel)?;
            }
            Op::GatherNd { batch_axes } => {
                let what = index::Gather::Tuples { batch_axes: usize::from(*batch_axes) };
                index::gather(what, &outputs[0], [&inputs[0], &inputs[1]], parallel)?;
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
                let operands = QuantizeOperands::of(command);
                match operands.packed_axes(command.op()) {
                    Some(axes) => quantize_packed::quantize(&axes, &operands, parallel),
                    None => {
                        let parts = operands.parts(command.op());
                        parts.iter().for_each(|part| quantize::quantize(part, parallel));
                    }
                }
            }
            Op::Dequantize { .. } => {
                let operands = QuantizeOperands::of(command);
                match operands.packed_axes(command.op()) {
                    Some(axes) => quantize_packed::dequantize(&axes, &operands, parallel),
                    None => {
                        let parts = operands.parts(command.op());
                        parts.iter().for_each(|part| quantize::dequantize(part, parallel));
                    }
                }
            }
            Op::DynamicQuantize { range, .. } => {
                dynamic::quantize(*range, &DynamicQuantizeOperands::of(command), parallel);
            }
            Op::MatMulInteger { rescale, .. } => {
                let operands = MatMulIntegerOperands::of(command);
                let MatMulIntegerOperands { dst, a, b, a_zero, b_zero, .. } = operands;
                let scales = [operands.a_scale, operands.b_scale];
                let added = [operands.bias, operands.residual];
                let dst_scale = [operands.dst_scale, operands.dst_zero];
                let extras = rescale_operands(*rescale, scales, added, dst_scale);
                let (operands, zeros) = ([a, b], [a_zero, b_zero]);
                int8_gemm::matmul_integer(dst, operands, zeros, extras.as_ref(), parallel)?;
            }
            Op::ConvInteger { params, rescale, .. } => {
                let operands = ConvIntegerOperands::of(command);
                let ConvIntegerOperands { dst, src, weight, src_zero, weight_zero, .. } = operands;
                let scales = [operands.src_scale, operands.weight_scale];
                let added = [operands.bias, operands.residual];
                let dst_scale = [operands.dst_scale, operands.dst_zero];
                let extras = rescale_operands(*rescale, scales, added, dst_scale);
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
                let (block, operands) = (usize::from(*block), blocks_operands(command));
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

/// Calls `body` while scratch memory of so many bytes is in use.
#[cfg(test)]
pub(crate) fn with_scratch_bytes<R>(bytes: usize, body: impl FnOnce() -> R) -> R {
    shared::scratch::with_scratch([bytes], |_: [&mut [u8]; 1]| body()).expect("scratch memory")
}

#[cfg(test)]
mod tests;
