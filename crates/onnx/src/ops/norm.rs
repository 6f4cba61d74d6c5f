//! Normalization.

use millstream_core::Op;
use millstream_graph::{Operator, Value};

use super::common::axis;
use crate::Result;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[("LayerNormalization", layer_norm)];

fn layer_norm(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let along = node.attributes.int_or("axis", -1)?;
    let epsilon = node.attributes.float_or("epsilon", 1e-5)?;
    node.attributes.ignore(&["stash_type"]);
    operator(node, move |at, inputs| {
        let (input, weight, bias) = (inputs.tensor(0)?, inputs.optional(1)?, inputs.optional(2)?);
        let rank = at.rank(input);
        let axes = (rank - axis(along, rank)?) as u8;
        let moments = at.wants(1) || at.wants(2);
        let op = Op::LayerNorm {
            axes,
            epsilon,
            weight: weight.is_some(),
            bias: bias.is_some(),
            moments,
        };
        let given: Vec<_> = [Some(input), weight, bias].into_iter().flatten().collect();
        let made = at.apply_all(op, &given)?;
        Ok(made.into_iter().map(Value::Tensor).collect())
    })
}
