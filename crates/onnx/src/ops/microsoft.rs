//! Operators of `com.microsoft` that exporters, quantizers and ONNX Runtime's optimizer write.
//!
//! Many are a standard operator with something before or behind it. These are made of the standard operator.

mod activation;
mod attention;
mod blocks;
mod bnb;
mod channels;
mod crop;
mod gather_blocks;
mod group_query;
mod hash;
mod linear;
mod norm;
mod old;
mod product;
mod quantized;
mod rotary;

use millstream_core::{DType, Op, UnaryOp};
use millstream_graph::{Edge, Expanded, Expander, Operator};

use super::common::{cast, each, refusal, with_number};
use crate::model::NEWEST_OPSET;
use crate::node::NodeDef;
use crate::registry::{Table, find};
use crate::{Error, Result};

pub(crate) use norm::SIMPLIFIED;
pub(crate) use old::OLD;

/// All tables of the domain.
pub(crate) const TABLES: &[Table] = &[
    activation::TABLE,
    attention::TABLE,
    blocks::TABLE,
    bnb::TABLE,
    channels::TABLE,
    crop::TABLE,
    gather_blocks::TABLE,
    group_query::TABLE,
    hash::TABLE,
    linear::TABLE,
    norm::TABLE,
    product::TABLE,
    quantized::TABLE,
    rotary::TABLE,
    super::recurrent::MICROSOFT,
    SAME,
];

/// Those that a standard operator of the newest set stands for.
const SAME: Table = &[
    ("DequantizeLinear", |node| standard(node, "DequantizeLinear")),
    ("GatherND", |node| standard(node, "GatherND")),
    ("GridSample", |node| standard(node, "GridSample")),
    ("Pad", |node| standard(node, "Pad")),
    ("QuantizeLinear", |node| standard(node, "QuantizeLinear")),
    ("Range", |node| standard(node, "Range")),
    ("Trilu", |node| standard(node, "Trilu")),
    ("Unique", super::compact::unique_in_order),
];

/// A standard operator, made of this node's attributes.
fn standard(node: &mut NodeDef<'_, '_>, kind: &str) -> Result<Box<dyn Operator>> {
    let Some(make) = find("", kind) else {
        return Err(refusal(format!("{kind}, which it is made of, is not supported")));
    };
    let own = std::mem::replace(&mut node.version, NEWEST_OPSET);
    let made = make(node);
    node.version = own;
    made
}

/// The one tensor that an operator makes of these.
fn made(operator: &dyn Operator, at: &mut Expander<'_>, inputs: &[Option<Edge>]) -> Expanded<Edge> {
    let inputs: Vec<_> = inputs.iter().map(|input| input.map(Into::into)).collect();
    match operator.expand(at, &inputs)?.first() {
        Some(value) => Ok(value.tensor()?),
        None => Err(refusal(format!("{} makes nothing", operator.kind())).into()),
    }
}

/// 8-bit numbers that stand for others.
#[derive(Clone, Copy)]
struct Quantized {
    values: Edge,
    scale: Edge,
    zero: Option<Edge>,
}

impl Quantized {
    /// The numbers that they stand for.
    fn numbers(self, at: &mut Expander<'_>) -> Expanded<Edge> {
        let scale = cast(at, self.scale, DType::F32)?;
        let op = Op::Dequantize {
            axis: None,
            dtype: DType::F32,
            zero: self.zero.is_some(),
            block: None,
        };
        let given: Vec<Edge> = [self.values, scale].into_iter().chain(self.zero).collect();
        at.apply(op, &given)
    }
}

/// Numbers as 8-bit numbers of a type that stand for them.
fn quantized(
    at: &mut Expander<'_>,
    numbers: Edge,
    scale: Edge,
    zero: Option<Edge>,
    dtype: DType,
) -> Expanded<Edge> {
    let op = Op::Quantize { axis: None, dtype, zero: zero.is_some(), block: None };
    let given: Vec<Edge> = [numbers, scale].into_iter().chain(zero).collect();
    at.apply(op, &given)
}

/// The activation of a fused operator.
#[derive(Clone, Debug)]
enum Activated {
    Not,
    Unary(UnaryOp),
    Clip(f32, f32),
}

impl Activated {
    /// An activation by its name, with its parameters.
    fn of(name: Option<&str>, params: &[f32]) -> Result<Self> {
        let param = |index: usize, default: f32| params.get(index).copied().unwrap_or(default);
        Ok(Self::Unary(match name {
            None | Some("") => return Ok(Self::Not),
            Some("Relu") => UnaryOp::Relu,
            Some("Tanh") => UnaryOp::Tanh,
            Some("Sigmoid") => UnaryOp::Sigmoid,
            Some("HardSwish") => UnaryOp::HardSwish,
            Some("Gelu") => UnaryOp::Gelu,
            Some("Softplus") => UnaryOp::Softplus,
            Some("Softsign") => UnaryOp::Softsign,
            Some("LeakyRelu") => UnaryOp::LeakyRelu { slope: param(0, 0.01) },
            Some("Elu") => UnaryOp::Elu { alpha: param(0, 1.0) },
            Some("ThresholdedRelu") => UnaryOp::ThresholdedRelu { alpha: param(0, 1.0) },
            Some("Selu") => {
                UnaryOp::Selu { alpha: param(0, 1.673_263_2), gamma: param(1, 1.050_701) }
            }
            Some("HardSigmoid") => {
                UnaryOp::HardSigmoid { alpha: param(0, 0.2), beta: param(1, 0.5) }
            }
            Some("Clip") => return Ok(Self::Clip(param(0, f32::MIN), param(1, f32::MAX))),
            Some(other) => {
                let reason = format!("activation {other:?} is not known");
                return Err(Error::Invalid { op: "onnx", reason });
            }
        }))
    }

    fn apply(&self, at: &mut Expander<'_>, input: Edge) -> Expanded<Edge> {
        match self {
            Self::Not => Ok(input),
            Self::Unary(op) => each(at, *op, input),
            Self::Clip(min, max) => {
                let (min, max) = (Some((*min).into()), Some((*max).into()));
                at.apply(Op::Clip { min, max }, &[input])
            }
        }
    }
}

/// A tensor times a number, where that is not 1.
fn scaled(at: &mut Expander<'_>, input: Edge, factor: f32) -> Expanded<Edge> {
    if factor == 1.0 {
        return Ok(input);
    }
    with_number(at, millstream_core::BinaryOp::Mul, input, factor)
}

#[cfg(test)]
mod tests;
