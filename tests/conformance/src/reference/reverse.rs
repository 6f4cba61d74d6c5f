//! Elements in the opposite order.

use millstream_core::Axes;

use crate::dense::places;
use crate::{Dense, Expected};

pub(super) fn apply(
    axes: Axes,
    batch: Option<usize>,
    input: &Dense,
    lengths: Option<&Dense>,
) -> Vec<Expected> {
    let source = |mut place: Vec<usize>| {
        for axis in axes.iter() {
            let length = match (batch, lengths) {
                (Some(batch), Some(lengths)) => lengths.values[place[batch]].as_i64() as usize,
                _ => input.shape[axis],
            };
            if place[axis] < length {
                place[axis] = length - 1 - place[axis];
            }
        }
        Expected::Exact(input.at(&place))
    };
    places(&input.shape).into_iter().map(source).collect()
}
