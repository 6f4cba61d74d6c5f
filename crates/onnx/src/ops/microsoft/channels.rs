//! Convolution and pooling with something behind them, or with channels in another place.

use millstream_core::BinaryOp;

use super::super::common::{Made, one, pair};
use super::quantized::{channels_first, channels_last};
use super::{Activated, made, standard};
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(super) const TABLE: Table = &[
    ("FusedConv", |node| conv(node, false)),
    ("NhwcConv", |node| conv(node, true)),
    ("NhwcFusedConv", |node| conv(node, true)),
    ("NhwcMaxPool", max_pool),
];

/// A convolution, a sum with another tensor, and an activation.
fn conv(node: &mut NodeDef<'_, '_>, last: bool) -> Made {
    let params = node.attributes.floats("activation_params")?.unwrap_or_default();
    let activation = Activated::of(node.attributes.string("activation")?, params)?;
    let conv = standard(node, "Conv")?;
    operator(node, move |at, inputs| {
        let (mut input, weight) = (inputs.tensor(0)?, Some(inputs.tensor(1)?));
        if last {
            input = channels_first(at, input)?;
        }
        let mut result = made(&*conv, at, &[Some(input), weight, inputs.optional(2)?])?;
        if let Some(added) = inputs.optional(3)? {
            let added = if last { channels_first(at, added)? } else { added };
            result = pair(at, BinaryOp::Add, result, added)?;
        }
        result = activation.apply(at, result)?;
        one(if last { channels_last(at, result)? } else { result })
    })
}

fn max_pool(node: &mut NodeDef<'_, '_>) -> Made {
    let pool = standard(node, "MaxPool")?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let input = channels_first(at, input)?;
        let result = made(&*pool, at, &[Some(input)])?;
        one(channels_last(at, result)?)
    })
}
