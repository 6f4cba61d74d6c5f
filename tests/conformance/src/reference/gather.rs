//! Reading by index.

use crate::dense::places;
use crate::{Dense, Expected, Value};

/// A coordinate from an index, which counts from the end when it is negative.
pub(super) fn coordinate(index: Value, size: usize) -> usize {
    let index = index.as_i64();
    let place = if index < 0 { index + size as i64 } else { index };
    usize::try_from(place).ok().filter(|&place| place < size).expect("cases have valid indices")
}

pub(super) fn along(axis: usize, input: &Dense, indices: &Dense) -> Vec<Expected> {
    let rank = indices.shape.len();
    let (before, behind) = (&input.shape[..axis], &input.shape[axis + 1..]);
    places(&[before, &indices.shape, behind].concat())
        .iter()
        .map(|place| {
            let (before, rest) = place.split_at(axis);
            let (index, behind) = rest.split_at(rank);
            let at = coordinate(indices.at(index), input.shape[axis]);
            Expected::Exact(input.at(&[before, &[at], behind].concat()))
        })
        .collect()
}

pub(super) fn elements(axis: usize, input: &Dense, indices: &Dense) -> Vec<Expected> {
    places(&indices.shape)
        .into_iter()
        .map(|mut place| {
            place[axis] = coordinate(indices.at(&place), input.shape[axis]);
            Expected::Exact(input.at(&place))
        })
        .collect()
}

pub(super) fn tuples(shared: usize, input: &Dense, indices: &Dense) -> Vec<Expected> {
    let leading = indices.shape.len() - 1;
    let count = indices.shape[leading];
    places(&[&indices.shape[..leading], &input.shape[shared + count..]].concat())
        .iter()
        .map(|place| {
            let (outer, inner) = place.split_at(leading);
            let tuple = tuple(shared, &input.shape, indices, outer);
            Expected::Exact(input.at(&[&outer[..shared], &tuple, inner].concat()))
        })
        .collect()
}

/// The coordinates that the tuple at a place names, behind shared axes.
pub(super) fn tuple(
    shared: usize,
    shape: &[usize],
    indices: &Dense,
    place: &[usize],
) -> Vec<usize> {
    (0..indices.shape[place.len()])
        .map(|at| coordinate(indices.at(&[place, &[at]].concat()), shape[shared + at]))
        .collect()
}
