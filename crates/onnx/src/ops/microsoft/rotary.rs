//! Rotary embedding.

use millstream_core::{BinaryOp, DType, Op};
use millstream_graph::{Edge, Expanded, Expander};

use super::super::common::{Made, broadcast, iota, one, pair, refusal, refuse, reshape};
use super::attention::{join_heads, split_heads};
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(super) const TABLE: Table = &[("RotaryEmbedding", rotary)];

/// Pairs of elements of `[batch, heads, length, size]`, turned by the angles of their positions `[batch, length]`.
pub(super) fn rotated(
    at: &mut Expander<'_>,
    input: Edge,
    [cos, sin]: [Edge; 2],
    positions: Edge,
    interleaved: bool,
) -> Expanded<Edge> {
    at.apply(Op::Rope { interleaved, positions: true }, &[input, cos, sin, positions])
}

fn rotary(node: &mut NodeDef<'_, '_>) -> Made {
    let attributes = &node.attributes;
    let heads = attributes.int_or("num_heads", 0)?;
    let width = attributes.int_or("rotary_embedding_dim", 0)?;
    let interleaved = attributes.flag("interleaved", false)?;
    // onnxruntime reads `scale` and does nothing with it: models were tested so.
    attributes.ignore(&["is_packed_batching", "scale"]);
    let Ok(heads) = usize::try_from(heads) else {
        return Err(refusal(format!("{heads} heads")));
    };
    operator(node, move |at, inputs| {
        let (input, given) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let caches = [inputs.tensor(2)?, inputs.tensor(3)?];
        let Some(&pairs) = at.shape(caches[0]).get(1) else {
            return refuse("angles need two axes");
        };
        let flat = at.rank(input) == 3;
        let shape = at.shape(input);
        let with_heads = match shape[..] {
            [_, _, all] => {
                // Without a number of heads, rows are as wide as there are angles for.
                let own = if width > 0 { heads } else { all / (2 * pairs).max(1) };
                let count = if heads > 0 { heads } else { own };
                split_heads(at, input, count)?
            }
            [_, _, _, _] => input,
            _ => return refuse(format!("an input of shape {:?}", &shape[..])),
        };
        let &[batch, _, length, _] = &at.shape(with_heads)[..] else {
            return refuse("heads that were not split");
        };
        let positions = match at.shape(given)[..] {
            // The position of the first.
            [1] | [] => {
                let rest = iota(at, DType::I64, &[batch, length], 1)?;
                let first = reshape(at, given, &[1, 1])?;
                pair(at, BinaryOp::Add, rest, first)?
            }
            _ => broadcast(at, given, &[batch, length])?,
        };
        let result = rotated(at, with_heads, caches, positions, interleaved)?;
        one(if flat { join_heads(at, result)? } else { result })
    })
}
