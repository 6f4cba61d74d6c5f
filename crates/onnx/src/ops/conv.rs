//! Convolution.

use millstream_core::{ConvParams, DeformConvParams, Epilogue, MAX_SPATIAL, Op};
use millstream_graph::{Edge, Expanded, Expander};

use super::common::{Made, one, refuse};
use super::window::{AutoPad, Geometry, Window};
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[
    ("Conv", conv),
    ("ConvTranspose", |node| conv_transpose(node, false)),
    ("DeformConv", deform_conv),
];

/// Those of `com.microsoft`.
pub(crate) const MICROSOFT: Table =
    &[("ConvTransposeWithDynamicPads", |node| conv_transpose(node, true))];

/// The sizes of the spatial axes of an input, and of a kernel.
pub(crate) fn spatial(at: &Expander<'_>, input: Edge, weight: Edge) -> Expanded<[Vec<usize>; 2]> {
    let (input, weight) = (at.shape(input), at.shape(weight));
    if input.len() < 3 || weight.len() != input.len() {
        return refuse(format!(
            "weights of shape {:?} for an input of shape {:?}",
            &weight[..],
            &input[..]
        ));
    }
    Ok([input[2..].to_vec(), weight[2..].to_vec()])
}

/// The parameters of a convolution of these.
pub(crate) fn params(geometry: &Geometry, axes: usize, groups: i64) -> Expanded<ConvParams> {
    let Ok(groups) = u32::try_from(groups) else { return refuse(format!("{groups} groups")) };
    Ok(ConvParams {
        stride: geometry.stride,
        pad_before: geometry.before,
        pad_after: geometry.after,
        dilation: geometry.dilation,
        groups,
        ..ConvParams::new(axes)
    })
}

fn conv(node: &mut NodeDef<'_, '_>) -> Made {
    let window = Window::of(node)?;
    let groups = node.attributes.int_or("group", 1)?;
    operator(node, move |at, inputs| {
        let (input, weight, bias) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.optional(2)?);
        let [sizes, kernel] = spatial(at, input, weight)?;
        let geometry = window.over(&sizes, Some(&kernel))?;
        let params = Box::new(params(&geometry, sizes.len(), groups)?);
        let epilogue = Epilogue { bias: bias.is_some(), ..Epilogue::default() };
        let given: Vec<Edge> = [input, weight].into_iter().chain(bias).collect();
        one(at.apply(Op::Conv { params, epilogue }, &given)?)
    })
}

/// Padding may be an input, before the bias.
fn conv_transpose(node: &mut NodeDef<'_, '_>, pads_given: bool) -> Made {
    let window = Window::of(node)?;
    let groups = node.attributes.int_or("group", 1)?;
    let more = node.attributes.ints("output_padding")?.unwrap_or_default().to_vec();
    let wanted = node.attributes.ints("output_shape")?.map(<[i64]>::to_vec);
    operator(node, move |at, inputs| {
        let (input, weight) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let bias = inputs.optional(if pads_given { 3 } else { 2 })?;
        let [sizes, kernel] = spatial(at, input, weight)?;
        let mut window = window.clone();
        if let (true, Some(pads)) = (pads_given, inputs.optional(2)?) {
            window.pads = Some(at.integers(pads)?);
        }
        let mut geometry = window.over(&sizes, Some(&kernel))?;
        let mut output_padding = [0u32; MAX_SPATIAL];
        for (place, &value) in output_padding.iter_mut().zip(&more) {
            *place = u32::try_from(value).or_else(|_| refuse("a negative output padding"))?;
        }
        let same = matches!(window.auto_pad, AutoPad::SameUpper | AutoPad::SameLower);
        if wanted.is_some() || same {
            // The text of the first version has the sides the other way round; onnxruntime never did it like that.
            let upper = window.auto_pad == AutoPad::SameUpper;
            for (axis, &size) in sizes.iter().enumerate() {
                let stride = i128::from(geometry.stride[axis]);
                let out = match &wanted {
                    // Some files give batch and channels too.
                    Some(wanted) => {
                        match wanted.get(axis + wanted.len().saturating_sub(sizes.len())) {
                            Some(&out) => i128::from(out),
                            None => return refuse("output_shape has too few sizes"),
                        }
                    }
                    None => size as i128 * stride,
                };
                let natural = (size as i128 - 1) * stride
                    + i128::from(output_padding[axis])
                    + i128::from(geometry.reach(axis));
                let total = natural - out;
                let least = |value: i128| u32::try_from(value.max(0)).unwrap_or(u32::MAX);
                // What is wanted beyond the natural size is added behind.
                output_padding[axis] = output_padding[axis].saturating_add(least(-total));
                let (half, rest) =
                    (least(total.max(0) / 2), least(total.max(0) - total.max(0) / 2));
                geometry.before[axis] = if upper { half } else { rest };
                geometry.after[axis] = if upper { rest } else { half };
            }
        }
        let params = ConvParams { output_padding, ..params(&geometry, sizes.len(), groups)? };
        let epilogue = Epilogue { bias: bias.is_some(), ..Epilogue::default() };
        let given: Vec<Edge> = [input, weight].into_iter().chain(bias).collect();
        one(at.apply(Op::ConvTranspose { params: Box::new(params), epilogue }, &given)?)
    })
}

fn deform_conv(node: &mut NodeDef<'_, '_>) -> Made {
    let window = Window::of(node)?;
    let groups = node.attributes.int_or("group", 1)?;
    let offset_groups = node.attributes.int_or("offset_group", 1)?;
    operator(node, move |at, inputs| {
        let (input, weight, offset) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
        let (bias, mask) = (inputs.optional(3)?, inputs.optional(4)?);
        let [sizes, kernel] = spatial(at, input, weight)?;
        let geometry = window.over(&sizes, Some(&kernel))?;
        let Ok(offset_groups) = u32::try_from(offset_groups) else {
            return refuse(format!("{offset_groups} groups of offsets"));
        };
        let params = DeformConvParams {
            conv: params(&geometry, sizes.len(), groups)?,
            offset_groups,
            bias: bias.is_some(),
            mask: mask.is_some(),
        };
        let given: Vec<Edge> =
            [input, weight, offset].into_iter().chain(bias).chain(mask).collect();
        one(at.apply(Op::DeformConv { params: Box::new(params) }, &given)?)
    })
}
