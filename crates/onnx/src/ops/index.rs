//! Operators that pick elements by index.

use millstream_core::Op;
use millstream_graph::Operator;

use super::common::{axis, one};
use crate::Result;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[("Gather", gather)];

fn gather(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let along = node.attributes.int_or("axis", 0)?;
    operator(node, move |at, inputs| {
        let (input, indices) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let along = axis(along, at.rank(input))?;
        one(at.apply(Op::Gather { axis: along as u8 }, &[input, indices])?)
    })
}
