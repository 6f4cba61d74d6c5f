//! Products of 8-bit integers that stand for numbers.

use millstream_core::{Activation, BinaryOp, DType, DynamicRange, Op, Rescale};
use millstream_graph::{Edge, Expanded, Expander};

use super::super::common::{Made, cast, one, pair, permute, with_number};
use super::super::product::product_by;
use super::Quantized;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(super) const TABLE: Table =
    &[("DynamicQuantizeMatMul", dynamic), ("MatMulIntegerToFloat", to_float), ("QGemm", gemm)];

/// `a × b + bias`, in floating point, or as 8-bit integers of this scale, zero point and type.
pub(super) fn product(
    at: &mut Expander<'_>,
    a: Quantized,
    b: Quantized,
    bias: Option<Edge>,
    result: Option<(Edge, Option<Edge>, DType)>,
) -> Expanded<Edge> {
    let rescale = Rescale {
        dtype: result.map_or(DType::F32, |(_, _, dtype)| dtype),
        bias: bias.is_some(),
        residual: false,
        activation: Activation::None,
        zero: result.is_some_and(|(_, zero, _)| zero.is_some()),
    };
    let op = Op::MatMulInteger {
        a_zero: a.zero.is_some(),
        b_zero: b.zero.is_some(),
        rescale: Some(rescale),
    };
    let (a_scale, b_scale) = (cast(at, a.scale, DType::F32)?, cast(at, b.scale, DType::F32)?);
    product_by(at, a.values, b.values, |at, left, right| {
        let mut given = vec![left, right];
        given.extend(a.zero);
        given.extend(b.zero);
        given.extend([a_scale, b_scale]);
        given.extend(bias);
        if let Some((scale, zero, _)) = result {
            given.push(scale);
            given.extend(zero);
        }
        at.apply(op, &given)
    })
}

/// Numbers as 8-bit integers, with the scale and zero point that take in all of them.
pub(super) fn dynamically(at: &mut Expander<'_>, numbers: Edge) -> Expanded<Quantized> {
    let numbers = cast(at, numbers, DType::F32)?;
    let op = Op::DynamicQuantize { range: DynamicRange::Tensor, dtype: DType::U8 };
    let made = at.apply_all(op, &[numbers])?;
    Ok(Quantized { values: made[0], scale: made[1], zero: made.get(2).copied() })
}

fn dynamic(node: &mut NodeDef<'_, '_>) -> Made {
    operator(node, |at, inputs| {
        let a = dynamically(at, inputs.tensor(0)?)?;
        let (values, scale) = (inputs.tensor(1)?, inputs.tensor(2)?);
        let b = Quantized { values, scale, zero: inputs.optional(3)? };
        one(product(at, a, b, inputs.optional(4)?, None)?)
    })
}

fn to_float(node: &mut NodeDef<'_, '_>) -> Made {
    operator(node, |at, inputs| {
        let side = |values: usize, scale: usize, zero: usize| -> Expanded<Quantized> {
            let (values, scale) = (inputs.tensor(values)?, inputs.tensor(scale)?);
            Ok(Quantized { values, scale, zero: inputs.optional(zero)? })
        };
        let (a, b) = (side(0, 2, 4)?, side(1, 3, 5)?);
        let dtype = at.dtype(a.scale);
        let bias = inputs.optional(6)?;
        let bias = bias.map(|bias| cast(at, bias, DType::F32)).transpose()?;
        let result = product(at, a, b, bias, None)?;
        one(cast(at, result, dtype)?)
    })
}

fn gemm(node: &mut NodeDef<'_, '_>) -> Made {
    let alpha = node.attributes.float_or("alpha", 1.0)?;
    let transposed =
        [node.attributes.flag("transA", false)?, node.attributes.flag("transB", false)?];
    operator(node, move |at, inputs| {
        let side = |at: &mut Expander<'_>, first: usize, transposed: bool| -> Expanded<Quantized> {
            let mut values = inputs.tensor(first)?;
            if transposed {
                values = permute(at, values, &[1, 0])?;
            }
            let (scale, zero) = (inputs.tensor(first + 1)?, inputs.optional(first + 2)?);
            Ok(Quantized { values, scale, zero })
        };
        let mut a = side(at, 0, transposed[0])?;
        let b = side(at, 3, transposed[1])?;
        if alpha != 1.0 {
            a.scale = with_number(at, BinaryOp::Mul, a.scale, alpha)?;
        }
        let bias = inputs.optional(6)?;
        let Some(scale) = inputs.optional(7)? else {
            return one(product(at, a, b, bias, None)?);
        };
        let zero = inputs.optional(8)?;
        let dtype = zero.map_or(at.dtype(a.values), |zero| at.dtype(zero));
        one(product(at, a, b, bias, Some((scale, zero, dtype)))?)
    })
}

/// The sum of a product and a bias, if there is one.
pub(super) fn plus(at: &mut Expander<'_>, product: Edge, bias: Option<Edge>) -> Expanded<Edge> {
    match bias {
        Some(bias) => pair(at, BinaryOp::Add, product, bias),
        None => Ok(product),
    }
}
