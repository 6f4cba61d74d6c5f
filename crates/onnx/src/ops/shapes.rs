//! Operators on shapes: what they give follows from the shapes of a call.

use millstream_graph::{Array, Operator};

use super::common::one;
use crate::Result;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[("Shape", shape), ("Size", size)];

fn shape(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let (start, end) = (node.attributes.int_or("start", 0)?, node.attributes.int("end")?);
    operator(node, move |at, inputs| {
        let shape = at.shape(inputs.tensor(0)?);
        let rank = shape.len() as i64;
        let bound = |place: i64| {
            (if place < 0 { place.saturating_add(rank) } else { place }).clamp(0, rank) as usize
        };
        let (start, end) = (bound(start), bound(end.unwrap_or(rank)));
        let sizes: Vec<i64> =
            shape[start..end.max(start)].iter().map(|&size| size as i64).collect();
        one(at.constant(Array::vector(&sizes)?))
    })
}

fn size(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    operator(node, |at, inputs| {
        let elements: usize = at.shape(inputs.tensor(0)?).iter().product();
        one(at.constant(Array::scalar(elements as i64)))
    })
}
