//! Padding.

use millstream_core::{MAX_RANK, Op, PadMode, PadParams, Scalar};
use millstream_graph::{Edge, Expanded, Expander};

use super::common::{Made, axis, given_integers, one, refuse, unknown};
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[("Pad", pad)];

#[derive(Clone, Copy, Debug)]
enum Mode {
    Constant,
    Edge,
    Reflect,
    Wrap,
}

fn pad(node: &mut NodeDef<'_, '_>) -> Made {
    let mode = match node.attributes.string_or("mode", "constant")? {
        "constant" => Mode::Constant,
        "edge" => Mode::Edge,
        "reflect" => Mode::Reflect,
        "wrap" => Mode::Wrap,
        other => return unknown("mode", other),
    };
    let name = if node.version < 2 { "paddings" } else { "pads" };
    let attribute = node.attributes.ints(name)?.map(<[i64]>::to_vec);
    let value = node.attributes.float("value")?.map(Scalar::from);
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let rank = at.rank(input);
        let Some(widths) = given_integers(at, &attribute, inputs, 1)? else {
            return refuse("there are no widths");
        };
        let along = match inputs.optional(3)? {
            Some(given) => at.integers(given)?,
            None => (0..rank as i64).collect(),
        };
        if widths.len() != 2 * along.len() {
            return refuse(format!("{} widths for {} axes", widths.len(), along.len()));
        }
        let mode = match mode {
            Mode::Constant => PadMode::Constant(match (value, inputs.optional(2)?) {
                (Some(value), _) => value,
                (None, Some(edge)) => at.scalar(edge)?,
                (None, None) => Scalar::Int(0),
            }),
            Mode::Edge => PadMode::Edge,
            Mode::Reflect => PadMode::Reflect,
            Mode::Wrap => PadMode::Wrap,
        };
        let (mut before, mut after) = (vec![0; rank], vec![0; rank]);
        for (index, &one) in along.iter().enumerate() {
            let axis = axis(one, rank)?;
            before[axis] = widths[index];
            after[axis] = widths[along.len() + index];
        }
        one(padded(at, input, mode, &before, &after)?)
    })
}

/// A tensor with so many elements more on both sides of its axes; fewer where they are negative.
pub(crate) fn padded(
    at: &mut Expander<'_>,
    input: Edge,
    mode: PadMode,
    before: &[i64],
    after: &[i64],
) -> Expanded<Edge> {
    if before.iter().chain(after).all(|&width| width == 0) {
        return Ok(input);
    }
    let mut params = PadParams { mode, before: [0; MAX_RANK], after: [0; MAX_RANK] };
    params.before[..before.len()].copy_from_slice(before);
    params.after[..after.len()].copy_from_slice(after);
    at.apply(Op::Pad { params: Box::new(params) }, &[input])
}
