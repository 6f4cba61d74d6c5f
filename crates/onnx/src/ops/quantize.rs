//! Numbers as integers with a scale, and back.

use millstream_core::{Activation, BinaryOp, DType, DynamicRange, Op, Rescale};
use millstream_graph::{Edge, Expanded, Expander};

use super::common::{
    Made, along, axis, broadcast, cast, cast_with, elements, many, one, pair, refusal, refuse,
    reshape, slice, unsqueeze,
};
use super::conv::{params, spatial};
use super::product::product_by;
use super::window::Window;
use crate::Result;
use crate::dtypes::dtype;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[
    ("ConvInteger", conv_integer),
    ("DequantizeLinear", dequantize),
    ("DynamicQuantizeLinear", dynamic_quantize),
    ("MatMulInteger", matmul_integer),
    ("QLinearConv", qlinear_conv),
    ("QLinearMatMul", qlinear_matmul),
    ("QuantizeLinear", quantize),
];

/// The attributes that say which elements share a scale.
#[derive(Clone, Copy, Debug)]
struct Sharing {
    axis: i64,
    block: i64,
}

impl Sharing {
    fn of(node: &NodeDef<'_, '_>) -> Result<Self> {
        let (axis, block) =
            (node.attributes.int_or("axis", 1)?, node.attributes.int_or("block_size", 0)?);
        Ok(Self { axis, block })
    }

    /// The axis along which scales differ, if they do, and how many neighbors share one.
    fn along(
        &self,
        at: &Expander<'_>,
        input: Edge,
        scale: Edge,
    ) -> Expanded<(Option<usize>, Option<u32>)> {
        if self.block > 0 {
            let Ok(block) = u32::try_from(self.block) else { return refuse("block_size") };
            return Ok((Some(axis(self.axis, at.rank(input))?), Some(block)));
        }
        if elements(&at.shape(scale)) == 1 {
            return Ok((None, None));
        }
        Ok((Some(axis(self.axis, at.rank(input))?), None))
    }
}

/// A scale or zero point so that it repeats over the input.
fn spread(
    at: &mut Expander<'_>,
    input: Edge,
    scale: Edge,
    (axis, block): (Option<usize>, Option<u32>),
) -> Expanded<Edge> {
    let Some(axis) = axis else { return reshape(at, scale, &[]) };
    let shape = at.shape(input);
    let Some(block) = block else { return along(at, scale, shape.len(), axis) };
    let apart = unsqueeze(at, scale, axis + 1)?;
    let mut wide = at.shape(apart);
    wide[axis + 1] = block as usize;
    let wide = broadcast(at, apart, &wide)?;
    let mut joined = at.shape(scale);
    joined[axis] *= block as usize;
    let joined = reshape(at, wide, &joined)?;
    slice(at, joined, axis, 0, shape[axis])
}

fn output_type(node: &NodeDef<'_, '_>) -> Result<Option<DType>> {
    match node.attributes.int_or("output_dtype", 0)? {
        0 => Ok(None),
        number => dtype(number as i32).map(Some).map_err(refusal),
    }
}

/// Whether a type is floating point that is only stored, of 8 bits.
fn is_small_float(dtype: DType) -> bool {
    dtype.is_storage() && dtype.per_byte() == 1
}

fn quantize(node: &mut NodeDef<'_, '_>) -> Made {
    let (sharing, given) = (Sharing::of(node)?, output_type(node)?);
    let saturate = node.attributes.flag("saturate", true)?;
    node.attributes.ignore(&["precision"]);
    operator(node, move |at, inputs| {
        let (input, scale, zero) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.optional(2)?);
        let dtype = zero.map(|zero| at.dtype(zero)).or(given).unwrap_or(DType::U8);
        let (axis, block) = sharing.along(at, input, scale)?;
        let input = if at.dtype(input).is_float() { input } else { cast(at, input, DType::F32)? };
        if is_small_float(dtype) {
            let wide = spread(at, input, scale, (axis, block))?;
            let (numbers, wide) = (cast(at, input, DType::F32)?, cast(at, wide, DType::F32)?);
            let mut quotient = pair(at, BinaryOp::Div, numbers, wide)?;
            if let Some(zero) = zero {
                let zero = spread(at, input, zero, (axis, block))?;
                let zero = cast(at, zero, DType::F32)?;
                quotient = pair(at, BinaryOp::Add, quotient, zero)?;
            }
            return one(cast_with(at, quotient, dtype, saturate)?);
        }
        let axis = axis.map(|axis| axis as u8);
        let op = Op::Quantize { axis, dtype, zero: zero.is_some(), block };
        let given: Vec<Edge> = [input, scale].into_iter().chain(zero).collect();
        one(at.apply(op, &given)?)
    })
}

fn dequantize(node: &mut NodeDef<'_, '_>) -> Made {
    let (sharing, given) = (Sharing::of(node)?, output_type(node)?);
    operator(node, move |at, inputs| {
        let (input, scale, zero) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.optional(2)?);
        let dtype = given.unwrap_or(at.dtype(scale));
        let (axis, block) = sharing.along(at, input, scale)?;
        if is_small_float(at.dtype(input)) {
            let wide = spread(at, input, scale, (axis, block))?;
            let (mut numbers, wide) = (cast(at, input, DType::F32)?, cast(at, wide, DType::F32)?);
            if let Some(zero) = zero {
                let zero = spread(at, input, zero, (axis, block))?;
                let zero = cast(at, zero, DType::F32)?;
                numbers = pair(at, BinaryOp::Sub, numbers, zero)?;
            }
            let product = pair(at, BinaryOp::Mul, numbers, wide)?;
            return one(cast(at, product, dtype)?);
        }
        let axis = axis.map(|axis| axis as u8);
        let op = Op::Dequantize { axis, dtype, zero: zero.is_some(), block };
        let given: Vec<Edge> = [input, scale].into_iter().chain(zero).collect();
        one(at.apply(op, &given)?)
    })
}

fn dynamic_quantize(node: &mut NodeDef<'_, '_>) -> Made {
    operator(node, |at, inputs| {
        let input = inputs.tensor(0)?;
        many(at.apply_all(
            Op::DynamicQuantize { range: DynamicRange::Tensor, dtype: DType::U8 },
            &[input],
        )?)
    })
}

fn matmul_integer(node: &mut NodeDef<'_, '_>) -> Made {
    operator(node, |at, inputs| {
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let (a_zero, b_zero) = (inputs.optional(2)?, inputs.optional(3)?);
        let op =
            Op::MatMulInteger { a_zero: a_zero.is_some(), b_zero: b_zero.is_some(), rescale: None };
        one(product_by(at, a, b, |at, a, b| {
            let given: Vec<Edge> = [a, b].into_iter().chain(a_zero).chain(b_zero).collect();
            at.apply(op, &given)
        })?)
    })
}

/// Sums that become integers of 8 bits again.
fn requantized(dtype: DType, bias: bool) -> Rescale {
    Rescale { dtype, bias, residual: false, activation: Activation::None, zero: true }
}

fn qlinear_matmul(node: &mut NodeDef<'_, '_>) -> Made {
    operator(node, |at, inputs| {
        let tensors = inputs.tensors()?;
        let [a, a_scale, a_zero, b, b_scale, b_zero, scale, zero] = tensors[..] else {
            return refuse("eight inputs are needed");
        };
        let rescale = Some(requantized(at.dtype(zero), false));
        let op = Op::MatMulInteger { a_zero: true, b_zero: true, rescale };
        let mut scales = Vec::new();
        for scale in [a_scale, b_scale, scale] {
            scales.push(cast(at, scale, DType::F32)?);
        }
        one(product_by(at, a, b, |at, a, b| {
            at.apply(op, &[a, b, a_zero, b_zero, scales[0], scales[1], scales[2], zero])
        })?)
    })
}

fn conv_integer(node: &mut NodeDef<'_, '_>) -> Made {
    let window = Window::of(node)?;
    let groups = node.attributes.int_or("group", 1)?;
    operator(node, move |at, inputs| {
        let (input, weight) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let (src_zero, weight_zero) = (inputs.optional(2)?, inputs.optional(3)?);
        let [sizes, kernel] = spatial(at, input, weight)?;
        let geometry = window.over(&sizes, Some(&kernel))?;
        let op = Op::ConvInteger {
            params: Box::new(params(&geometry, sizes.len(), groups)?),
            src_zero: src_zero.is_some(),
            weight_zero: weight_zero.is_some(),
            rescale: None,
        };
        let given: Vec<Edge> =
            [input, weight].into_iter().chain(src_zero).chain(weight_zero).collect();
        one(at.apply(op, &given)?)
    })
}

fn qlinear_conv(node: &mut NodeDef<'_, '_>) -> Made {
    let window = Window::of(node)?;
    let groups = node.attributes.int_or("group", 1)?;
    operator(node, move |at, inputs| {
        let (input, src_scale, src_zero) =
            (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
        let (weight, weight_scale, weight_zero) =
            (inputs.tensor(3)?, inputs.tensor(4)?, inputs.tensor(5)?);
        let (scale, zero, bias) = (inputs.tensor(6)?, inputs.tensor(7)?, inputs.optional(8)?);
        let [sizes, kernel] = spatial(at, input, weight)?;
        let geometry = window.over(&sizes, Some(&kernel))?;
        let op = Op::ConvInteger {
            params: Box::new(params(&geometry, sizes.len(), groups)?),
            src_zero: true,
            weight_zero: true,
            rescale: Some(requantized(at.dtype(zero), bias.is_some())),
        };
        let given: Vec<Edge> = [input, weight, src_zero, weight_zero, src_scale, weight_scale]
            .into_iter()
            .chain(bias)
            .chain([scale, zero])
            .collect();
        one(at.apply(op, &given)?)
    })
}
