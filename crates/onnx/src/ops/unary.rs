//! Functions of single elements.

use millstream_core::{BinaryOp, DType, UnaryOp};
use millstream_graph::{Edge, Expanded, Expander};

use super::common::{Made, cast, each, one, pair, unknown, wide, with_number};
use crate::Result;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[
    ("Abs", |node| unary(node, UnaryOp::Abs)),
    ("Acos", |node| unary(node, UnaryOp::Acos)),
    ("Acosh", |node| unary(node, UnaryOp::Acosh)),
    ("Asin", |node| unary(node, UnaryOp::Asin)),
    ("Asinh", |node| unary(node, UnaryOp::Asinh)),
    ("Atan", |node| unary(node, UnaryOp::Atan)),
    ("Atanh", |node| unary(node, UnaryOp::Atanh)),
    ("Ceil", |node| unary(node, UnaryOp::Ceil)),
    ("Cos", |node| unary(node, UnaryOp::Cos)),
    ("Cosh", |node| unary(node, UnaryOp::Cosh)),
    ("Erf", |node| unary(node, UnaryOp::Erf)),
    ("Exp", |node| unary(node, UnaryOp::Exp)),
    ("Floor", |node| unary(node, UnaryOp::Floor)),
    ("HardSwish", |node| unary(node, UnaryOp::HardSwish)),
    ("Log", |node| unary(node, UnaryOp::Log)),
    ("Mish", |node| unary(node, UnaryOp::Mish)),
    ("Neg", |node| unary(node, UnaryOp::Neg)),
    ("Not", |node| unary(node, UnaryOp::Not)),
    ("BitwiseNot", |node| unary(node, UnaryOp::Not)),
    ("IsNaN", |node| unary(node, UnaryOp::IsNan)),
    ("Reciprocal", |node| unary(node, UnaryOp::Reciprocal)),
    ("Relu", |node| unary(node, UnaryOp::Relu)),
    ("Round", |node| unary(node, UnaryOp::Round)),
    ("Sigmoid", |node| unary(node, UnaryOp::Sigmoid)),
    ("Sign", |node| unary(node, UnaryOp::Sign)),
    ("Sin", |node| unary(node, UnaryOp::Sin)),
    ("Sinh", |node| unary(node, UnaryOp::Sinh)),
    ("Softplus", |node| unary(node, UnaryOp::Softplus)),
    ("Softsign", |node| unary(node, UnaryOp::Softsign)),
    ("Sqrt", |node| unary(node, UnaryOp::Sqrt)),
    ("Tan", |node| unary(node, UnaryOp::Tan)),
    ("Tanh", |node| unary(node, UnaryOp::Tanh)),
    ("Celu", |node| {
        let alpha = node.attributes.float_or("alpha", 1.0)?;
        unary(node, UnaryOp::Celu { alpha })
    }),
    ("Elu", |node| {
        let alpha = node.attributes.float_or("alpha", 1.0)?;
        unary(node, UnaryOp::Elu { alpha })
    }),
    ("Gelu", |node| {
        let op = gelu(node)?;
        unary(node, op)
    }),
    ("HardSigmoid", |node| {
        let alpha = node.attributes.float_or("alpha", 0.2)?;
        let beta = node.attributes.float_or("beta", 0.5)?;
        unary(node, UnaryOp::HardSigmoid { alpha, beta })
    }),
    ("IsInf", |node| {
        let positive = node.attributes.flag("detect_positive", true)?;
        let negative = node.attributes.flag("detect_negative", true)?;
        unary(node, UnaryOp::IsInf { positive, negative })
    }),
    ("LeakyRelu", |node| {
        let slope = node.attributes.float_or("alpha", 0.01)?;
        unary(node, UnaryOp::LeakyRelu { slope })
    }),
    ("Selu", |node| {
        // The first version had fewer digits.
        let (alpha, gamma) =
            if node.version < 6 { (1.6732, 1.0507) } else { (1.673_263_2, 1.050_701) };
        let alpha = node.attributes.float_or("alpha", alpha)?;
        let gamma = node.attributes.float_or("gamma", gamma)?;
        unary(node, UnaryOp::Selu { alpha, gamma })
    }),
    ("Shrink", |node| {
        let lambda = node.attributes.float_or("lambd", 0.5)?;
        let bias = node.attributes.float_or("bias", 0.0)?;
        unary(node, UnaryOp::Shrink { lambda, bias })
    }),
    ("ThresholdedRelu", |node| {
        let alpha = node.attributes.float_or("alpha", 1.0)?;
        unary(node, UnaryOp::ThresholdedRelu { alpha })
    }),
    ("Swish", swish),
    // What older operator sets had, and ONNX Runtime still has.
    ("Affine", |node| {
        let alpha = node.attributes.float_or("alpha", 1.0)?;
        let beta = node.attributes.float_or("beta", 0.0)?;
        affine(node, alpha, beta)
    }),
    ("Scale", |node| {
        let scale = node.attributes.float_or("scale", 1.0)?;
        affine(node, scale, 0.0)
    }),
    ("ParametricSoftplus", |node| scaled(node, UnaryOp::Softplus)),
    ("ScaledTanh", |node| scaled(node, UnaryOp::Tanh)),
];

fn gelu(node: &NodeDef<'_, '_>) -> Result<UnaryOp> {
    match node.attributes.string_or("approximate", "none")? {
        "tanh" => Ok(UnaryOp::GeluTanh),
        "none" => Ok(UnaryOp::Gelu),
        other => unknown("approximate", other),
    }
}

fn unary(node: &mut NodeDef<'_, '_>, op: UnaryOp) -> Made {
    node.attributes.ignore(&["consumed_inputs"]);
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        one(of_any(at, op, input)?)
    })
}

/// A function of each element, of a type that it may have no meaning for: integers are computed with as fractions.
pub(crate) fn of_any(at: &mut Expander<'_>, op: UnaryOp, input: Edge) -> Expanded<Edge> {
    let dtype = at.dtype(input);
    if op.output(dtype).is_some() || dtype == DType::Bool {
        return each(at, op, input);
    }
    let computed = wide(dtype);
    let input = cast(at, input, computed)?;
    let result = each(at, op, input)?;
    if at.dtype(result) == computed { cast(at, result, dtype) } else { Ok(result) }
}

fn swish(node: &mut NodeDef<'_, '_>) -> Made {
    let alpha = node.attributes.float_or("alpha", 1.0)?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        one(swish_of(at, input, alpha)?)
    })
}

/// `x · sigmoid(alpha · x)`.
pub(crate) fn swish_of(at: &mut Expander<'_>, input: Edge, alpha: f32) -> Expanded<Edge> {
    if alpha == 1.0 {
        return each(at, UnaryOp::Silu, input);
    }
    let scaled = with_number(at, BinaryOp::Mul, input, alpha)?;
    let gate = each(at, UnaryOp::Sigmoid, scaled)?;
    pair(at, BinaryOp::Mul, input, gate)
}

/// `alpha · x + beta`.
fn affine(node: &mut NodeDef<'_, '_>, alpha: f32, beta: f32) -> Made {
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let product = with_number(at, BinaryOp::Mul, input, alpha)?;
        one(with_number(at, BinaryOp::Add, product, beta)?)
    })
}

/// `alpha · f(beta · x)`.
fn scaled(node: &mut NodeDef<'_, '_>, op: UnaryOp) -> Made {
    let alpha = node.attributes.float_or("alpha", 1.0)?;
    let beta = node.attributes.float_or("beta", 1.0)?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let inner = with_number(at, BinaryOp::Mul, input, beta)?;
        let outer = each(at, op, inner)?;
        one(with_number(at, BinaryOp::Mul, outer, alpha)?)
    })
}
