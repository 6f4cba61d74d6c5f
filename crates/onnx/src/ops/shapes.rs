//! Operators on shapes: what they give follows from the shapes of a call.

use millstream_graph::{Array, Expanded, Expander, Sizes};

use super::common::{Made, elements, one};
use super::text::strings_shape;
use crate::inputs::Inputs;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[("Shape", shape), ("Size", size)];

/// The sizes of the first input, which may be strings.
fn sizes(at: &Expander<'_>, inputs: Inputs<'_>) -> Expanded<Sizes> {
    if let Some(shape) = strings_shape(inputs.required(0)?) {
        return Ok(shape);
    }
    Ok(at.shape(inputs.tensor(0)?))
}

fn shape(node: &mut NodeDef<'_, '_>) -> Made {
    let (start, end) = (node.attributes.int_or("start", 0)?, node.attributes.int("end")?);
    operator(node, move |at, inputs| {
        let shape = sizes(at, inputs)?;
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

fn size(node: &mut NodeDef<'_, '_>) -> Made {
    operator(node, |at, inputs| {
        let count = elements(&sizes(at, inputs)?);
        one(at.constant(Array::scalar(count as i64)))
    })
}
