//! Pooling.

use millstream_core::{
    BinaryOp, ConvParams, DType, Epilogue, Op, PoolKind, PoolOrder, PoolParams, ReduceOp, Scalar,
    ScatterReduction, UnaryOp,
};
use millstream_graph::{Edge, Expanded, Expander, Sizes};

use super::common::{
    Made, cast, each, elements, fill, many, one, pair, reduce, refuse, reshape, sizes, wide,
    with_number,
};
use super::window::{AutoPad, Geometry, Window};
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[
    ("AveragePool", average_pool),
    ("GlobalAveragePool", |node| global(node, Global::Mean)),
    ("GlobalLpPool", |node| {
        let p = if node.version < 2 {
            f64::from(node.attributes.float_or("p", 2.0)?)
        } else {
            node.attributes.int_or("p", 2)? as f64
        };
        global(node, Global::Norm(p))
    }),
    ("GlobalMaxPool", |node| global(node, Global::Max)),
    ("LpPool", lp_pool),
    ("LRN", local_response_norm),
    ("MaxPool", max_pool),
    ("MaxUnpool", max_unpool),
];

/// The sizes of the spatial axes of an input.
fn spatial(at: &Expander<'_>, input: Edge) -> Expanded<Vec<usize>> {
    match &at.shape(input)[..] {
        [_, _, sizes @ ..] if !sizes.is_empty() => Ok(sizes.to_vec()),
        other => refuse(format!("an input of shape {other:?} has no spatial axes")),
    }
}

/// The window of a pooling. One that is larger than the input by less than its step is there once, as onnxruntime has it.
fn pooled(window: &Window, sizes: &[usize]) -> Expanded<Geometry> {
    let mut geometry = window.over(sizes, None)?;
    for (axis, &size) in sizes.iter().enumerate() {
        let padded =
            size as u64 + u64::from(geometry.before[axis]) + u64::from(geometry.after[axis]);
        let missing = geometry.reach(axis).saturating_sub(padded);
        if size > 0 && missing < u64::from(geometry.stride[axis]) {
            geometry.after[axis] += missing as u32;
        }
    }
    Ok(geometry)
}

fn params(geometry: &Geometry, axes: usize, kind: PoolKind, ceil: bool) -> PoolParams {
    PoolParams {
        kind,
        spatial: axes as u8,
        kernel: geometry.kernel,
        stride: geometry.stride,
        pad_before: geometry.before,
        pad_after: geometry.after,
        dilation: geometry.dilation,
        ceil,
        indices: false,
        order: PoolOrder::Whole,
    }
}

fn max_pool(node: &mut NodeDef<'_, '_>) -> Made {
    let window = Window::of(node)?;
    let ceil = node.attributes.flag("ceil_mode", false)?;
    let by_columns = node.attributes.flag("storage_order", false)?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let sizes = spatial(at, input)?;
        let geometry = pooled(&window, &sizes)?;
        let ceil = ceil && matches!(window.auto_pad, AutoPad::Explicit | AutoPad::Valid);
        let params = PoolParams {
            indices: at.wants(1),
            order: if by_columns { PoolOrder::WholeByColumns } else { PoolOrder::Whole },
            ..params(&geometry, sizes.len(), PoolKind::Max, ceil)
        };
        many(at.apply_all(Op::Pool { params: Box::new(params) }, &[input])?)
    })
}

fn average_pool(node: &mut NodeDef<'_, '_>) -> Made {
    let window = Window::of(node)?;
    let ceil = node.attributes.flag("ceil_mode", false)?;
    let include_padding = node.attributes.flag("count_include_pad", false)?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let sizes = spatial(at, input)?;
        let geometry = pooled(&window, &sizes)?;
        let ceil = ceil && matches!(window.auto_pad, AutoPad::Explicit | AutoPad::Valid);
        let kind = PoolKind::Average { include_padding };
        let params = Box::new(params(&geometry, sizes.len(), kind, ceil));
        one(at.apply(Op::Pool { params }, &[input])?)
    })
}

#[derive(Clone, Copy, Debug)]
enum Global {
    Mean,
    Max,
    Norm(f64),
}

/// Over all places.
fn global(node: &mut NodeDef<'_, '_>, kind: Global) -> Made {
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let axes: Vec<usize> = (2..spatial(at, input)?.len() + 2).collect();
        one(match kind {
            Global::Mean => reduce(at, ReduceOp::Mean, input, &axes)?,
            Global::Max => reduce(at, ReduceOp::Max, input, &axes)?,
            Global::Norm(p) => {
                let dtype = at.dtype(input);
                let input = cast(at, input, wide(dtype))?;
                let powers = power(at, input, p)?;
                let sum = reduce(at, ReduceOp::Sum, powers, &axes)?;
                let result = root(at, sum, p)?;
                cast(at, result, dtype)?
            }
        })
    })
}

/// `|x|ᵖ`.
fn power(at: &mut Expander<'_>, input: Edge, p: f64) -> Expanded<Edge> {
    if p == 2.0 {
        return each(at, UnaryOp::Square, input);
    }
    let absolute = each(at, UnaryOp::Abs, input)?;
    if p == 1.0 { Ok(absolute) } else { with_number(at, BinaryOp::Pow, absolute, p) }
}

fn root(at: &mut Expander<'_>, input: Edge, p: f64) -> Expanded<Edge> {
    match p {
        1.0 => Ok(input),
        2.0 => each(at, UnaryOp::Sqrt, input),
        _ => with_number(at, BinaryOp::Pow, input, 1.0 / p),
    }
}

/// Sums over windows are a convolution with ones, each channel by itself.
fn lp_pool(node: &mut NodeDef<'_, '_>) -> Made {
    let window = Window::of(node)?;
    let ceil = node.attributes.flag("ceil_mode", false)?;
    let p = if node.version < 2 {
        f64::from(node.attributes.float_or("p", 2.0)?)
    } else {
        node.attributes.int_or("p", 2)? as f64
    };
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let (sizes, dtype) = (spatial(at, input)?, at.dtype(input));
        let geometry = window.over(&sizes, None)?;
        let channels = at.shape(input)[1];
        let pool = params(&geometry, sizes.len(), PoolKind::Max, ceil);
        // Where one more window begins, there is so much more padding behind.
        let probe = Op::Pool { params: Box::new(PoolParams { ceil, ..pool }) };
        let made = probe.infer(&[&at.spec(input).layout()?])?;
        let mut conv = ConvParams {
            stride: pool.stride,
            pad_before: pool.pad_before,
            pad_after: pool.pad_after,
            dilation: pool.dilation,
            groups: u32::try_from(channels).unwrap_or(u32::MAX),
            ..ConvParams::new(sizes.len())
        };
        for (axis, &size) in sizes.iter().enumerate() {
            let windows = made[0].shape()[axis + 2] as u64;
            let end =
                windows.saturating_sub(1) * u64::from(pool.stride[axis]) + geometry.reach(axis);
            let have = size as u64 + u64::from(pool.pad_before[axis]);
            let after = u32::try_from(end.saturating_sub(have)).unwrap_or(u32::MAX);
            conv.pad_after[axis] = conv.pad_after[axis].max(after);
        }
        let computed = wide(dtype);
        let input = cast(at, input, computed)?;
        let powers = power(at, input, p)?;
        let kernel = geometry.kernel[..sizes.len()].iter().map(|&size| size as usize);
        let shape: Sizes = [channels, 1].into_iter().chain(kernel).collect();
        let ones = fill(at, 1.0, computed, &shape)?;
        let op = Op::Conv { params: Box::new(conv), epilogue: Epilogue::default() };
        let sum = at.apply(op, &[powers, ones])?;
        let result = root(at, sum, p)?;
        one(cast(at, result, dtype)?)
    })
}

/// The mean square of neighboring channels is a mean over windows of one spatial axis, padding counted.
fn local_response_norm(node: &mut NodeDef<'_, '_>) -> Made {
    let alpha = node.attributes.float_or("alpha", 1e-4)?;
    let beta = node.attributes.float_or("beta", 0.75)?;
    let bias = node.attributes.float_or("bias", 1.0)?;
    let size = node.attributes.int_or("size", 1)?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let (shape, dtype) = (at.shape(input), at.dtype(input));
        let (Ok(size), true) = (u32::try_from(size), shape.len() >= 2) else {
            return refuse(format!("{size} channels of an input of shape {:?}", &shape[..]));
        };
        let computed = wide(dtype);
        let flat = [shape[0], 1, shape[1], elements(&shape[2..])];
        let planes = reshape(at, input, &flat)?;
        let planes = cast(at, planes, computed)?;
        let squares = each(at, UnaryOp::Square, planes)?;
        let around = size.saturating_sub(1);
        let params = PoolParams {
            kind: PoolKind::Average { include_padding: true },
            spatial: 2,
            kernel: [size, 1, 1],
            stride: [1; 3],
            pad_before: [around / 2, 0, 0],
            pad_after: [around - around / 2, 0, 0],
            dilation: [1; 3],
            ceil: false,
            indices: false,
            order: PoolOrder::Channel,
        };
        let mean = at.apply(Op::Pool { params: Box::new(params) }, &[squares])?;
        let scaled = with_number(at, BinaryOp::Mul, mean, alpha)?;
        let moved = with_number(at, BinaryOp::Add, scaled, bias)?;
        let divisor = with_number(at, BinaryOp::Pow, moved, beta)?;
        let result = pair(at, BinaryOp::Div, planes, divisor)?;
        let result = cast(at, result, dtype)?;
        one(reshape(at, result, &shape)?)
    })
}

/// Elements go back to the places that they were taken from; what nobody was taken from is 0.
fn max_unpool(node: &mut NodeDef<'_, '_>) -> Made {
    let window = Window::of(node)?;
    operator(node, move |at, inputs| {
        let (input, indices) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let (shape, dtype) = (at.shape(input), at.dtype(input));
        let small = spatial(at, input)?;
        let geometry = window.over(&small, None)?;
        let mut natural = Sizes::from_slice(&shape[..2]);
        for (axis, &size) in small.iter().enumerate() {
            let end = (size as u64).saturating_sub(1) * u64::from(geometry.stride[axis])
                + u64::from(geometry.kernel[axis]);
            let padding = u64::from(geometry.before[axis]) + u64::from(geometry.after[axis]);
            natural.push(end.saturating_sub(padding) as usize);
        }
        let wanted = match inputs.optional(2)? {
            Some(given) => sizes(&at.integers(given)?)?,
            None => natural.clone(),
        };
        if wanted.len() != shape.len() {
            return refuse("the output's shape has another rank than the input");
        }
        // Indices count through an output of the natural size.
        let count = elements(&natural);
        let empty = fill(at, Scalar::Int(0), dtype, &[count])?;
        let values = reshape(at, input, &[elements(&shape)])?;
        let indices = cast(at, indices, DType::I64)?;
        let indices = reshape(at, indices, &[elements(&shape)])?;
        let op = Op::ScatterElements { axis: 0, reduction: ScatterReduction::Replace };
        let filled = at.apply(op, &[empty, indices, values])?;
        let result = reshape(at, filled, &natural)?;
        let before = vec![0i64; shape.len()];
        let after: Vec<i64> =
            wanted.iter().zip(&natural).map(|(&want, &have)| want as i64 - have as i64).collect();
        let mode = millstream_core::PadMode::Constant(Scalar::Int(0));
        one(super::pad::padded(at, result, mode, &before, &after)?)
    })
}
