//! Operators on images: places that data names, regions, columns.

use millstream_core::{
    ConvParams, DType, Epilogue, GridMode, GridPadding, Op, RoiAlignParams, RoiMode, Scalar,
};
use millstream_graph::{Array, Expanded, Sizes};

use super::blocks::repeated;
use super::common::{
    Made, along, broadcast, cast, elements, fill, one, permute, refuse, reshape, size, sizes,
    unknown, unsqueeze, vector, wide,
};
use super::product::multiplied;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[
    ("AffineGrid", affine_grid),
    ("Col2Im", col2im),
    ("GridSample", grid_sample),
    ("ImageScaler", image_scaler),
    ("RoiAlign", roi_align),
];

fn grid_sample(node: &mut NodeDef<'_, '_>) -> Made {
    let mode = match node.attributes.string_or("mode", "linear")? {
        "linear" | "bilinear" => GridMode::Linear,
        "nearest" => GridMode::Nearest,
        "cubic" | "bicubic" => GridMode::Cubic,
        other => return unknown("mode", other),
    };
    let padding = match node.attributes.string_or("padding_mode", "zeros")? {
        "zeros" => GridPadding::Zeros,
        "border" => GridPadding::Border,
        "reflection" => GridPadding::Reflection,
        other => return unknown("padding_mode", other),
    };
    let align_corners = node.attributes.flag("align_corners", false)?;
    operator(node, move |at, inputs| {
        let (input, grid) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let dtype = at.dtype(input);
        let computed = match dtype {
            DType::F16 | DType::BF16 => dtype,
            _ => DType::F32,
        };
        let (mut input, mut grid) = (cast(at, input, computed)?, cast(at, grid, computed)?);
        let line = at.rank(input) == 3;
        if line {
            // A line is an image of one row, and every place is in the middle of it.
            input = unsqueeze(at, input, 2)?;
            grid = unsqueeze(at, grid, 1)?;
            let shape = at.shape(grid);
            let middle = fill(at, 0.0, computed, &shape)?;
            grid = at.concat(3, &[grid, middle])?;
        }
        let mut result =
            at.apply(Op::GridSample { mode, padding, align_corners }, &[input, grid])?;
        if line {
            result = super::common::squeeze(at, result, 2)?;
        }
        one(cast(at, result, dtype)?)
    })
}

fn roi_align(node: &mut NodeDef<'_, '_>) -> Made {
    let half_pixel = match node.version {
        ..16 => false,
        _ => match node.attributes.string_or("coordinate_transformation_mode", "half_pixel")? {
            "half_pixel" => true,
            "output_half_pixel" => false,
            other => return unknown("coordinate_transformation_mode", other),
        },
    };
    let mode = match node.attributes.string_or("mode", "avg")? {
        "avg" => RoiMode::Mean,
        "max" => RoiMode::Max,
        other => return unknown("mode", other),
    };
    let (height, width) =
        (node.attributes.int_or("output_height", 1)?, node.attributes.int_or("output_width", 1)?);
    let samples = node.attributes.int_or("sampling_ratio", 0)?;
    let scale = node.attributes.float_or("spatial_scale", 1.0)?;
    operator(node, move |at, inputs| {
        let number = |value: i64| -> Expanded<u32> {
            u32::try_from(value).or_else(|_| refuse(format!("size {value}")))
        };
        let params = RoiAlignParams {
            size: [number(height)?, number(width)?],
            samples: number(samples)?,
            scale,
            mode,
            half_pixel,
        };
        let (input, rois, batches) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
        let dtype = at.dtype(input);
        let computed = if dtype == DType::F64 { DType::F32 } else { dtype };
        let (input, rois) = (cast(at, input, computed)?, cast(at, rois, computed)?);
        let result = at.apply(Op::RoiAlign { params }, &[input, rois, batches])?;
        one(cast(at, result, dtype)?)
    })
}

/// The places of an image, moved by a matrix for each of the batch.
fn affine_grid(node: &mut NodeDef<'_, '_>) -> Made {
    let align_corners = node.attributes.flag("align_corners", false)?;
    operator(node, move |at, inputs| {
        let theta = inputs.tensor(0)?;
        let wanted = sizes(&at.integers(inputs.tensor(1)?)?)?;
        let [batch, _, places @ ..] = &wanted[..] else { return refuse("sizes of an image") };
        let (axes, dtype) = (places.len(), at.dtype(theta));
        let computed = wide(dtype);
        let mut whole = Sizes::from_slice(places);
        whole.push(1);
        // The coordinate of the last axis comes first.
        let mut parts = Vec::with_capacity(axes + 1);
        for axis in (0..axes).rev() {
            let line: Vec<f64> =
                (0..places[axis]).map(|at| coordinate(at, places[axis], align_corners)).collect();
            let line = vector(at, &line, computed)?;
            let line = along(at, line, axes + 1, axis)?;
            parts.push(broadcast(at, line, &whole)?);
        }
        parts.push(fill(at, 1.0, computed, &whole)?);
        let points = at.concat(axes, &parts)?;
        let points = reshape(at, points, &[elements(places), axes + 1])?;
        let theta = cast(at, theta, computed)?;
        let theta = permute(at, theta, &[0, 2, 1])?;
        let points = unsqueeze(at, points, 0)?;
        let points = broadcast(at, points, &[*batch, elements(places), axes + 1])?;
        let grid = multiplied(at, points, theta)?;
        let mut shape = Sizes::from_slice(&[*batch]);
        shape.extend_from_slice(places);
        shape.push(axes);
        let grid = reshape(at, grid, &shape)?;
        one(cast(at, grid, dtype)?)
    })
}

/// Where an element lies between -1 and 1.
fn coordinate(place: usize, count: usize, align_corners: bool) -> f64 {
    if align_corners {
        if count < 2 { 0.0 } else { 2.0 * place as f64 / (count - 1) as f64 - 1.0 }
    } else {
        (2.0 * place as f64 + 1.0) / count as f64 - 1.0
    }
}

/// Columns as images: a transposed convolution in which every weight brings one column to its place.
fn col2im(node: &mut NodeDef<'_, '_>) -> Made {
    let own = |name: &str| -> crate::Result<Option<Vec<i64>>> {
        Ok(node.attributes.ints(name)?.map(<[i64]>::to_vec))
    };
    let (dilations, pads, strides) = (own("dilations")?, own("pads")?, own("strides")?);
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let image = sizes(&at.integers(inputs.tensor(1)?)?)?;
        let block = sizes(&at.integers(inputs.tensor(2)?)?)?;
        let [batch, columns, _] = at.shape(input)[..] else {
            return refuse("three axes are needed");
        };
        let (axes, taps) = (block.len(), elements(&block));
        if image.len() != axes || taps == 0 || columns % taps != 0 {
            return refuse("image and blocks do not fit each other");
        }
        let channels = columns / taps;
        let of = |given: &Option<Vec<i64>>, index: usize, usual: i64| -> Expanded<usize> {
            size(given.as_ref().and_then(|given| given.get(index).copied()).unwrap_or(usual))
        };
        let mut params = ConvParams {
            groups: u32::try_from(channels).unwrap_or(u32::MAX),
            ..ConvParams::new(axes)
        };
        if axes == 0 || axes > params.stride.len() {
            return refuse(format!("{axes} axes of an image"));
        }
        let mut places = Sizes::from_slice(&[batch, columns]);
        for axis in 0..axes {
            let (stride, dilation) =
                (of(&strides, axis, 1)?.max(1), of(&dilations, axis, 1)?.max(1));
            let (before, after) = (of(&pads, axis, 0)?, of(&pads, axes + axis, 0)?);
            let reach = dilation.saturating_mul(block[axis] - 1).saturating_add(1);
            let whole = image[axis].saturating_add(before).saturating_add(after);
            let Some(left) = whole.checked_sub(reach) else {
                return refuse("blocks are too large");
            };
            places.push(left / stride + 1);
            params.stride[axis] = stride as u32;
            params.dilation[axis] = dilation as u32;
            params.pad_before[axis] = before as u32;
            params.pad_after[axis] = after as u32;
            params.output_padding[axis] = (left % stride) as u32;
        }
        let (dtype, computed) = (at.dtype(input), wide(at.dtype(input)));
        let columns = cast(at, input, computed)?;
        let columns = reshape(at, columns, &places)?;
        let ones: Vec<Scalar> = (0..taps * taps)
            .map(|place| Scalar::Float(f64::from(u8::from(place / taps == place % taps))))
            .collect();
        let weight = at.constant(Array::of_scalars(computed, &[taps, taps], &ones)?);
        let weight = repeated(at, weight, &[channels, 1])?;
        let mut kernel = Sizes::from_slice(&[channels * taps, 1]);
        kernel.extend_from_slice(&block);
        let weight = reshape(at, weight, &kernel)?;
        let op = Op::ConvTranspose { params: Box::new(params), epilogue: Epilogue::default() };
        let result = at.apply(op, &[columns, weight])?;
        one(cast(at, result, dtype)?)
    })
}

/// An operator of old operator sets: `scale · x + bias`, with a bias for each channel.
fn image_scaler(node: &mut NodeDef<'_, '_>) -> Made {
    let scale = node.attributes.float_or("scale", 1.0)?;
    let bias: Vec<f64> =
        node.attributes.floats("bias")?.unwrap_or_default().iter().map(|&one| one.into()).collect();
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let dtype = at.dtype(input);
        let bias = vector(at, &bias, dtype)?;
        let rank = at.rank(input);
        let bias = along(at, bias, rank, 1)?;
        let op = millstream_core::BinaryOp::Mul;
        let scaled = super::common::with_number(at, op, input, scale)?;
        one(super::common::pair(at, millstream_core::BinaryOp::Add, scaled, bias)?)
    })
}
