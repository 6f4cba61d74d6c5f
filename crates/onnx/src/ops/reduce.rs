//! Operators that combine elements along axes.

use millstream_core::{Op, ReduceOp};
use millstream_graph::{Expanded, Operator, Sizes};

use super::common::{axes, axis, axis_set, one, reshape};
use crate::Result;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[
    ("ReduceMax", |node| reduce(node, ReduceOp::Max)),
    ("ReduceMean", |node| reduce(node, ReduceOp::Mean)),
    ("ReduceMin", |node| reduce(node, ReduceOp::Min)),
    ("ReduceProd", |node| reduce(node, ReduceOp::Prod)),
    ("ReduceSum", |node| reduce(node, ReduceOp::Sum)),
    ("Softmax", softmax),
];

fn reduce(node: &mut NodeDef<'_, '_>, op: ReduceOp) -> Result<Box<dyn Operator>> {
    let attribute = node.attributes.ints("axes")?.map(<[i64]>::to_vec);
    let keep = node.attributes.flag("keepdims", true)?;
    let nothing = node.attributes.flag("noop_with_empty_axes", false)?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let shape = at.shape(input);
        let given = match (&attribute, inputs.optional(1)?) {
            (Some(axes), _) => axes.clone(),
            (None, Some(edge)) => at.integers(edge)?,
            (None, None) => Vec::new(),
        };
        let along = match &given[..] {
            [] if nothing => return one(input),
            [] => (0..shape.len()).collect(),
            given => axes(given, shape.len())?,
        };
        let result = at.apply(Op::Reduce { op, axes: axis_set(&along)? }, &[input])?;
        if keep {
            return one(result);
        }
        let left: Sizes =
            (0..shape.len()).filter(|axis| !along.contains(axis)).map(|axis| shape[axis]).collect();
        one(reshape(at, result, &left)?)
    })
}

fn softmax(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let old = node.version < 13;
    let along = node.attributes.int_or("axis", if old { 1 } else { -1 })?;
    operator(node, move |at, inputs| -> Expanded<_> {
        let input = inputs.tensor(0)?;
        let shape = at.shape(input);
        let along = axis(along, shape.len())?;
        if !old {
            return one(at.apply(Op::Softmax { axis: along as u8, log: false }, &[input])?);
        }
        let count = |sizes: &[usize]| sizes.iter().product::<usize>();
        let flat = reshape(at, input, &[count(&shape[..along]), count(&shape[along..])])?;
        let flat = at.apply(Op::Softmax { axis: 1, log: false }, &[flat])?;
        one(reshape(at, flat, &shape)?)
    })
}
