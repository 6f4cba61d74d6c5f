//! Convolutions.

use smallvec::SmallVec;

use super::check::Check;
use super::{Activation, BufferLike, Command, ConvParams, Epilogue, MAX_SPATIAL, Op, Operand};
use crate::{DType, Layout, Result};

impl<B: BufferLike> Command<B> {
    /// `dst = activation(scale · conv(src, weight) + bias + residual)` over 1 to 3 spatial axes.
    ///
    /// `src` is `[batch, channels, spatial…]`, `weight` is `[outputs, channels / groups, kernel…]`,
    /// `dst` is `[batch, outputs, spatial…]`, `bias` is `[outputs]`, and `residual` broadcasts to
    /// `dst`. Sums are kept in `f32` (`f64` for `f64`), in an order that depends on the weights alone.
    ///
    /// # Errors
    ///
    /// Ranks, sizes, groups or types that do not match, a step of 0, a window larger than the padded
    /// input, or operands that do not fit their buffers or overlap.
    #[allow(clippy::too_many_arguments)]
    pub fn conv(
        dst: Operand<B>,
        src: Operand<B>,
        weight: Operand<B>,
        bias: Option<Operand<B>>,
        residual: Option<Operand<B>>,
        params: ConvParams,
        scale: f32,
        activation: Activation,
    ) -> Result<Self> {
        let check = Check("conv");
        check.float(&dst.layout)?;
        for input in [&src, &weight].into_iter().chain(&bias).chain(&residual) {
            check.same_dtype(&input.layout, &dst.layout)?;
        }
        check_conv(&check, &dst.layout, &src.layout, &weight.layout, &params)?;
        let epilogue =
            Epilogue { scale, bias: bias.is_some(), residual: residual.is_some(), activation };
        let mut inputs = SmallVec::<[Operand<B>; 4]>::new();
        inputs.push(src);
        inputs.push(weight);
        if let Some(bias) = bias {
            inputs.push(per_channel(&check, bias, &dst.layout, 1)?);
        }
        if let Some(residual) = residual {
            inputs.push(check.broadcast(residual, &dst.layout)?);
        }
        let op = Op::Conv { params: Box::new(params), epilogue };
        Self::assemble(op, [dst], inputs)
    }

    /// `dst = activation(scale · conv_transpose(src, weight) + bias)`: the convolution that
    /// [`conv`](Self::conv) with the same parameters is the other direction of.
    ///
    /// `src` is `[batch, channels, spatial…]`, `weight` is `[channels, outputs / groups, kernel…]`,
    /// `dst` is `[batch, outputs, spatial…]` with spatial sizes of
    /// `(size - 1) · stride - padding + (kernel - 1) · dilation + 1 + output_padding`.
    ///
    /// # Errors
    ///
    /// As for [`conv`](Self::conv), or an output padding that neither the step nor the distance of taps
    /// exceeds.
    pub fn conv_transpose(
        dst: Operand<B>,
        src: Operand<B>,
        weight: Operand<B>,
        bias: Option<Operand<B>>,
        params: ConvParams,
        scale: f32,
        activation: Activation,
    ) -> Result<Self> {
        let check = Check("conv_transpose");
        check.float(&dst.layout)?;
        for input in [&src, &weight].into_iter().chain(&bias) {
            check.same_dtype(&input.layout, &dst.layout)?;
        }
        check_transpose(&check, &dst.layout, &src.layout, &weight.layout, &params)?;
        let epilogue = Epilogue { scale, bias: bias.is_some(), residual: false, activation };
        let mut inputs = SmallVec::<[Operand<B>; 4]>::new();
        inputs.push(src);
        inputs.push(weight);
        if let Some(bias) = bias {
            inputs.push(per_channel(&check, bias, &dst.layout, 1)?);
        }
        let op = Op::ConvTranspose { params: Box::new(params), epilogue };
        Self::assemble(op, [dst], inputs)
    }

    /// Convolution of 8-bit integers, `u8` or `i8` each, to `i32`: of `src - src_zero` with
    /// `weight - weight_zero`. Sums wrap around.
    ///
    /// Shapes are those of [`conv`](Self::conv). `src_zero` is one number, `weight_zero` one number or
    /// `[outputs]`; each has the type of what it belongs to.
    ///
    /// # Errors
    ///
    /// As for [`conv`](Self::conv), or zero points of another shape or type.
    pub fn conv_integer(
        dst: Operand<B>,
        src: Operand<B>,
        weight: Operand<B>,
        src_zero: Option<Operand<B>>,
        weight_zero: Option<Operand<B>>,
        params: ConvParams,
    ) -> Result<Self> {
        let check = Check("conv_integer");
        check.dtype(&dst.layout, DType::I32)?;
        check.byte(&src.layout)?;
        check.byte(&weight.layout)?;
        check_conv(&check, &dst.layout, &src.layout, &weight.layout, &params)?;
        let op = Op::ConvInteger {
            params: Box::new(params),
            src_zero: src_zero.is_some(),
            weight_zero: weight_zero.is_some(),
        };
        let outputs = weight.layout.shape()[0];
        let src_zero = match src_zero {
            Some(zero) => {
                check.same_dtype(&zero.layout, &src.layout)?;
                check.that(zero.layout.elements() == 1, || {
                    format!("src_zero has shape {:?}, needs one element", zero.layout.shape())
                })?;
                let layout =
                    Layout::strided(zero.layout.dtype(), &[1], &[0], zero.layout.offset())?;
                Some(Operand { buffer: zero.buffer, layout })
            }
            None => None,
        };
        let weight_zero = match weight_zero {
            Some(zero) => {
                check.same_dtype(&zero.layout, &weight.layout)?;
                let shape = zero.layout.shape().to_vec();
                match zero.layout.broadcast_to(&[outputs]) {
                    Ok(layout) => Some(Operand { buffer: zero.buffer, layout }),
                    Err(_) => {
                        return check.fail(format!(
                            "weight_zero has shape {shape:?}, needs one element or [{outputs}]"
                        ));
                    }
                }
            }
            None => None,
        };
        let inputs = [src, weight].into_iter().chain(src_zero).chain(weight_zero);
        Self::assemble(op, [dst], inputs)
    }
}

/// Repeats a vector of one number per channel over a shape.
pub(super) fn per_channel<B>(
    check: &Check,
    vector: Operand<B>,
    shape: &Layout,
    axis: usize,
) -> Result<Operand<B>> {
    let channels = shape.shape()[axis];
    check.that(vector.layout.shape() == [channels], || {
        format!("one number per channel has shape {:?}, needs [{channels}]", vector.layout.shape())
    })?;
    let mut strides = [0; crate::MAX_RANK];
    strides[axis] = vector.layout.strides()[0];
    let layout = Layout::strided(
        vector.layout.dtype(),
        shape.shape(),
        &strides[..shape.rank()],
        vector.layout.offset(),
    )?;
    Ok(Operand { buffer: vector.buffer, layout })
}

/// What all convolutions share: ranks, batch, groups and steps. Gives the number of spatial axes.
fn check_common(
    check: &Check,
    [dst, src, weight]: [&Layout; 3],
    params: &ConvParams,
) -> Result<usize> {
    let spatial = usize::from(params.spatial);
    check.that((1..=MAX_SPATIAL).contains(&spatial), || {
        format!("{spatial} spatial axes, needs 1 to {MAX_SPATIAL}")
    })?;
    for layout in [dst, src, weight] {
        check.that(layout.rank() == spatial + 2, || {
            format!("an operand of shape {:?} for {spatial} spatial axes", layout.shape())
        })?;
    }
    check.that(dst.shape()[0] == src.shape()[0], || {
        format!("batches of {} and {}", src.shape()[0], dst.shape()[0])
    })?;
    for axis in 0..spatial {
        check.that(params.stride[axis] > 0 && params.dilation[axis] > 0, || {
            format!("a stride or dilation of 0 on spatial axis {axis}")
        })?;
        check.that(weight.shape()[axis + 2] > 0, || {
            format!("a kernel of shape {:?} has no taps", &weight.shape()[2..])
        })?;
    }
    check.that(params.groups > 0, || "0 groups".into())?;
    Ok(spatial)
}

fn check_channels(
    check: &Check,
    [inputs, outputs]: [usize; 2],
    weight: [usize; 2],
    wanted: [usize; 2],
    groups: usize,
) -> Result<()> {
    check.that(inputs.is_multiple_of(groups) && outputs.is_multiple_of(groups), || {
        format!("{inputs} channels to {outputs} do not split in {groups} groups")
    })?;
    check.that(weight == wanted, || {
        format!("weight begins with {weight:?}, needs {wanted:?} for {groups} groups")
    })
}

/// Sizes as numbers that sums and products of a few of them do not overflow.
fn wide(size: usize) -> i128 {
    size as i128
}

fn check_conv(
    check: &Check,
    dst: &Layout,
    src: &Layout,
    weight: &Layout,
    params: &ConvParams,
) -> Result<()> {
    let spatial = check_common(check, [dst, src, weight], params)?;
    let groups = params.groups as usize;
    let (inputs, outputs) = (src.shape()[1], dst.shape()[1]);
    let first = [weight.shape()[0], weight.shape()[1]];
    check_channels(check, [inputs, outputs], first, [outputs, inputs / groups], groups)?;
    for axis in 0..spatial {
        let (size, kernel) = (wide(src.shape()[axis + 2]), wide(weight.shape()[axis + 2]));
        let window = (kernel - 1) * i128::from(params.dilation[axis]) + 1;
        let padded =
            size + i128::from(params.pad_before[axis]) + i128::from(params.pad_after[axis]);
        check.that(window <= padded, || {
            format!("a window of {window} over {padded} elements on spatial axis {axis}")
        })?;
        let wanted = (padded - window) / i128::from(params.stride[axis]) + 1;
        check.that(wide(dst.shape()[axis + 2]) == wanted, || {
            format!(
                "output has {} elements on spatial axis {axis}, needs {wanted}",
                dst.shape()[axis + 2]
            )
        })?;
    }
    Ok(())
}

fn check_transpose(
    check: &Check,
    dst: &Layout,
    src: &Layout,
    weight: &Layout,
    params: &ConvParams,
) -> Result<()> {
    let spatial = check_common(check, [dst, src, weight], params)?;
    let groups = params.groups as usize;
    let (inputs, outputs) = (src.shape()[1], dst.shape()[1]);
    let first = [weight.shape()[0], weight.shape()[1]];
    check_channels(check, [inputs, outputs], first, [inputs, outputs / groups], groups)?;
    for axis in 0..spatial {
        let extra = params.output_padding[axis];
        check.that(extra < params.stride[axis].max(params.dilation[axis]), || {
            format!("output padding of {extra} on spatial axis {axis} is above stride and dilation")
        })?;
        let (size, kernel) = (wide(src.shape()[axis + 2]), wide(weight.shape()[axis + 2]));
        let wanted = (size - 1) * i128::from(params.stride[axis])
            - i128::from(params.pad_before[axis])
            - i128::from(params.pad_after[axis])
            + (kernel - 1) * i128::from(params.dilation[axis])
            + 1
            + i128::from(extra);
        check.that(wide(dst.shape()[axis + 2]) == wanted, || {
            format!(
                "output has {} elements on spatial axis {axis}, needs {wanted}",
                dst.shape()[axis + 2]
            )
        })?;
    }
    Ok(())
}
