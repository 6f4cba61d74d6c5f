//! Convolutions.
//!
//! A convolution is a product of the weights with a matrix of what each tap of the window sees at each output
//! (im2col). That matrix is never there as a whole: the panels of one tile of the product are gathered at a
//! time. Every sum is made in the order that the weights have in memory, so its bits depend neither on the batch
//! nor on where a tile begins. A transposed convolution is several convolutions, one for each residue of the
//! outputs by the stride.

mod deform;
mod depthwise;
mod depthwise_last;
mod epilogue;
mod epilogue_last;
mod gather;
mod integer;
mod last;
pub(super) mod places;
mod product;
pub(super) mod taps;
mod weight;
mod window;

#[cfg(test)]
mod tests;

pub(super) use deform::deform_conv;
pub(super) use epilogue::store_run;
pub(super) use gather::read_run;
pub(super) use integer::conv_integer;

use millstream_core::{ConvParams, DType, Epilogue, Layout, Operand, RawBuffer};
use smallvec::SmallVec;

use crate::kernels::matmul::panels::PanelElement;
use crate::kernels::shared::block::base;
use crate::kernels::shared::fault::Result;
use crate::kernels::shared::number::{StoredFloat, with_float};
use crate::kernels::shared::parallel::{Parallel, SendPtr};
use crate::kernels::shared::simd::Isa;
use epilogue::{ConvEpilogue, WindowedOperand};
use gather::Source;
use product::Conv;
use weight::Weight;
use window::Window;

/// The operands of a convolution.
pub(super) struct Operands<'a> {
    pub dst: &'a Operand<RawBuffer>,
    pub src: &'a Operand<RawBuffer>,
    pub weight: &'a Operand<RawBuffer>,
    pub bias: Option<&'a Operand<RawBuffer>>,
    pub residual: Option<&'a Operand<RawBuffer>>,
}

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn conv(
    params: &ConvParams,
    epilogue: &Epilogue,
    operands: &Operands<'_>,
    parallel: &dyn Parallel,
) -> Result {
    let Operands { dst, src, weight, .. } = operands;
    if dst.layout.is_empty() {
        return Ok(());
    }
    let added = [operands.bias, operands.residual].into_iter().flatten();
    let layouts: SmallVec<[&Layout; 4]> =
        [*dst, *src].into_iter().chain(added).map(|operand| &operand.layout).collect();
    let window = Window::of_conv(params, &dst.layout, &src.layout, &weight.layout)?;
    let window = window.flattened(&layouts);
    let rows = weight.layout.shape()[0] / params.groups as usize;
    let [row, channel] = [weight.layout.strides()[0], weight.layout.strides()[1]];
    let strides = [rows.saturating_mul(row), row, channel];
    with_float!(dst.layout.dtype(), T => {
        // SAFETY: passed on.
        unsafe { over::<T>(params, &window, epilogue, operands, strides, parallel) }
    })
}

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn conv_transpose(
    params: &ConvParams,
    epilogue: &Epilogue,
    operands: &Operands<'_>,
    parallel: &dyn Parallel,
) -> Result {
    let Operands { dst, src, weight, .. } = operands;
    if dst.layout.is_empty() {
        return Ok(());
    }
    let channels = weight.layout.shape()[0] / params.groups as usize;
    let [channel, row] = [weight.layout.strides()[0], weight.layout.strides()[1]];
    let strides = [channels.saturating_mul(channel), row, channel];
    for window in Window::of_transpose(params, &dst.layout, &src.layout, &weight.layout) {
        let window = window?;
        with_float!(dst.layout.dtype(), T => {
            // SAFETY: passed on; the windows have disjoint outputs.
            unsafe { over::<T>(params, &window, epilogue, operands, strides, parallel)? };
        });
    }
    Ok(())
}

/// Computes the outputs of one window.
unsafe fn over<T: StoredFloat<Compute: PanelElement>>(
    params: &ConvParams,
    window: &Window,
    epilogue: &Epilogue,
    operands: &Operands<'_>,
    strides: [usize; 3],
    parallel: &dyn Parallel,
) -> Result {
    let groups = params.groups as usize;
    let (dst, src) = (&operands.dst.layout, &operands.src.layout);
    // SAFETY: passed on; the output is not empty.
    let conv = unsafe {
        let placed = |operand: Option<&Operand<RawBuffer>>| {
            operand.map(|operand| WindowedOperand::<T>::new(window, operand))
        };
        Conv::<T> {
            window,
            batch: dst.shape()[0],
            groups,
            rows: dst.shape()[1] / groups,
            channels: src.shape()[1] / groups,
            source: Source {
                first: SendPtr::new(base(operands.src)),
                batch_stride: src.strides()[0],
                channel_stride: src.strides()[1],
            },
            weight: Weight::new(base(operands.weight), strides, &window.taps)?,
            epilogue: ConvEpilogue {
                epilogue,
                dst: WindowedOperand::new(window, operands.dst),
                added: [placed(operands.bias), placed(operands.residual)],
            },
        }
    };
    let isa = Isa::detect();
    // SAFETY: passed on; the ISA was detected.
    unsafe {
        if conv.is_last() {
            conv.run_last(isa, parallel)
        } else if conv.is_depthwise() {
            conv.run_depthwise(isa, parallel)
        } else {
            conv.run(isa, parallel)
        }
    }
}
