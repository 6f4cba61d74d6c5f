//! Operators on single elements.

use millstream_core::{BinaryOp, DType, Op, Scalar, UnaryOp};
use millstream_graph::{Edge, Expanded, Expander, Operator};

use super::common::{cast, one, refusal, refuse};
use crate::Result;
use crate::dtypes::dtype;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

type Made = Result<Box<dyn Operator>>;

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
    ("Gelu", |node| match node.attributes.string_or("approximate", "none")? {
        "tanh" => unary(node, UnaryOp::GeluTanh),
        _ => unary(node, UnaryOp::Gelu),
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
        let alpha = node.attributes.float_or("alpha", 1.673_263_2)?;
        let gamma = node.attributes.float_or("gamma", 1.050_701)?;
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
    ("Add", |node| binary(node, BinaryOp::Add)),
    ("And", |node| binary(node, BinaryOp::And)),
    ("BitwiseAnd", |node| binary(node, BinaryOp::And)),
    ("BitwiseOr", |node| binary(node, BinaryOp::Or)),
    ("BitwiseXor", |node| binary(node, BinaryOp::Xor)),
    ("Div", |node| binary(node, BinaryOp::Div)),
    ("Equal", |node| binary(node, BinaryOp::Equal)),
    ("Greater", |node| binary(node, BinaryOp::Greater)),
    ("GreaterOrEqual", |node| binary(node, BinaryOp::GreaterEqual)),
    ("Less", |node| binary(node, BinaryOp::Less)),
    ("LessOrEqual", |node| binary(node, BinaryOp::LessEqual)),
    ("Mul", |node| binary(node, BinaryOp::Mul)),
    ("Or", |node| binary(node, BinaryOp::Or)),
    ("Sub", |node| binary(node, BinaryOp::Sub)),
    ("Xor", |node| binary(node, BinaryOp::Xor)),
    ("Pow", pow),
    ("Where", |node| operator(node, |at, inputs| one(at.apply(Op::Where, &inputs.tensors()?)?))),
    ("Cast", cast_to),
    ("Clip", clip),
];

fn unary(node: &mut NodeDef<'_, '_>, op: UnaryOp) -> Made {
    node.attributes.ignore(&["consumed_inputs"]);
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        one(at.apply(Op::Unary { op }, &[input])?)
    })
}

fn binary(node: &mut NodeDef<'_, '_>, op: BinaryOp) -> Made {
    operator(node, move |at, inputs| {
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(1)?);
        one(at.apply(Op::Binary { op }, &[a, b])?)
    })
}

/// The exponent may have another type; the result has that of the base.
fn pow(node: &mut NodeDef<'_, '_>) -> Made {
    operator(node, |at, inputs| {
        let (base, exponent) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let dtype = at.dtype(base);
        if at.dtype(exponent).is_float() && !dtype.is_float() {
            // A power of an integer with a fraction is computed as it is, and cut off.
            let wide = cast(at, base, DType::F64)?;
            let exponent = cast(at, exponent, DType::F64)?;
            let power = at.apply(Op::Binary { op: BinaryOp::Pow }, &[wide, exponent])?;
            return one(cast(at, power, dtype)?);
        }
        let exponent = cast(at, exponent, dtype)?;
        one(at.apply(Op::Binary { op: BinaryOp::Pow }, &[base, exponent])?)
    })
}

fn cast_to(node: &mut NodeDef<'_, '_>) -> Made {
    let number = node.attributes.int_or("to", 0)?;
    let saturate = node.attributes.flag("saturate", true)?;
    node.attributes.ignore(&["round_mode"]);
    let to = dtype(number as i32).map_err(refusal)?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        if at.dtype(input) == to {
            return one(input);
        }
        one(at.apply(Op::Copy { dtype: to, saturate }, &[input])?)
    })
}

/// A limit that follows from the model is a parameter; one that a call brings is the other side of a maximum.
fn clip(node: &mut NodeDef<'_, '_>) -> Made {
    let (low, high) = (node.attributes.float("min")?, node.attributes.float("max")?);
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        if inputs.len() <= 1 {
            let scalar = |limit: Option<f32>| limit.map(Scalar::from);
            return one(at.apply(Op::Clip { min: scalar(low), max: scalar(high) }, &[input])?);
        }
        let (low, high) = (inputs.optional(1)?, inputs.optional(2)?);
        let known = |at: &Expander<'_>, limit: Option<Edge>| -> Expanded<Option<Option<Scalar>>> {
            match limit {
                None => Ok(Some(None)),
                Some(edge) if at.is_constant(edge) => Ok(Some(Some(at.scalar(edge)?))),
                Some(_) => Ok(None),
            }
        };
        if let (Some(min), Some(max)) = (known(at, low)?, known(at, high)?) {
            return one(at.apply(Op::Clip { min, max }, &[input])?);
        }
        let mut result = input;
        for (limit, op) in [(low, BinaryOp::Max), (high, BinaryOp::Min)] {
            let Some(limit) = limit else { continue };
            if at.shape(limit).iter().product::<usize>() != 1 {
                return refuse("a limit is not one number");
            }
            let limit = super::common::reshape(at, limit, &[])?;
            result = at.apply(Op::Binary { op }, &[result, limit])?;
        }
        one(result)
    })
}
