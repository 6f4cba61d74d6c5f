//! What only the data knows the size of: what is found, zeros behind it, and the number.

use std::cmp::Ordering;

use super::top_k::compare;
use crate::dense::{index, places};
use crate::{Dense, Expected, Value, convert};

fn whole(number: usize) -> Expected {
    Expected::Exact(Value::Int(number as i128))
}

fn is_zero(value: Value) -> bool {
    match value {
        Value::Int(value) => value == 0,
        Value::Float(value) => value == 0.0,
    }
}

pub(super) fn nonzero(input: &Dense) -> Vec<Expected> {
    let found: Vec<Vec<usize>> = places(&input.shape)
        .into_iter()
        .zip(&input.values)
        .filter(|(_, value)| !is_zero(**value))
        .map(|(place, _)| place)
        .collect();
    let mut expected = Vec::new();
    for axis in 0..input.shape.len() {
        let column = |at: usize| whole(found.get(at).map_or(0, |place| place[axis]));
        expected.extend((0..input.values.len()).map(column));
    }
    expected.push(whole(found.len()));
    expected
}

/// The slices of an input along an axis, or its elements.
fn slices(axis: Option<usize>, input: &Dense) -> (usize, Vec<Vec<Value>>) {
    let Some(axis) = axis else {
        let single = input.values.iter().map(|&value| vec![value]).collect();
        return (input.values.len(), single);
    };
    let mut slices = vec![Vec::new(); input.shape[axis]];
    for (place, &value) in places(&input.shape).iter().zip(&input.values) {
        slices[place[axis]].push(value);
    }
    (input.shape[axis], slices)
}

/// Some slices side by side, and zeros where there are none.
fn joined(
    axis: Option<usize>,
    input: &Dense,
    room: usize,
    slices: &[&Vec<Value>],
) -> Vec<Expected> {
    let zero = convert(Value::Int(0), input.dtype);
    let Some(axis) = axis else {
        let element = |at: usize| Expected::Exact(slices.get(at).map_or(zero, |slice| slice[0]));
        return (0..room).map(element).collect();
    };
    let mut shape = input.shape.clone();
    shape[axis] = room;
    let mut within = shape.clone();
    within.remove(axis);
    let element = |mut place: Vec<usize>| {
        let at = place.remove(axis);
        Expected::Exact(slices.get(at).map_or(zero, |slice| slice[index(&within, &place)]))
    };
    places(&shape).into_iter().map(element).collect()
}

pub(super) fn compress(axis: Option<usize>, input: &Dense, condition: &Dense) -> Vec<Expected> {
    let (_, slices) = slices(axis, input);
    let holds = slices.iter().zip(&condition.values).filter(|(_, holds)| holds.as_i64() != 0);
    let kept: Vec<&Vec<Value>> = holds.map(|(slice, _)| slice).collect();
    let mut expected = joined(axis, input, condition.values.len(), &kept);
    expected.push(whole(kept.len()));
    expected
}

pub(super) fn unique(axis: Option<usize>, sorted: bool, input: &Dense) -> Vec<Expected> {
    let (count, slices) = slices(axis, input);
    let order = |a: &[Value], b: &[Value]| {
        let each = a.iter().zip(b).map(|(&a, &b)| compare(a, b));
        each.fold(Ordering::Equal, Ordering::then)
    };
    // The first of each kind, how many there are, and of which kind each is.
    let mut kinds: Vec<(usize, usize)> = Vec::new();
    let mut first_of = Vec::new();
    for (at, slice) in slices.iter().enumerate() {
        let known = kinds.iter_mut().find(|kind| order(&slices[kind.0], slice).is_eq());
        match known {
            Some((first, count)) => {
                *count += 1;
                first_of.push(*first);
            }
            None => {
                kinds.push((at, 1));
                first_of.push(at);
            }
        }
    }
    if sorted {
        kinds.sort_by(|a, b| order(&slices[a.0], &slices[b.0]));
    }
    let values: Vec<&Vec<Value>> = kinds.iter().map(|kind| &slices[kind.0]).collect();
    let mut expected = joined(axis, input, count, &values);
    expected.extend((0..count).map(|at| whole(kinds.get(at).map_or(0, |kind| kind.0))));
    let number = |first: &usize| kinds.iter().position(|kind| kind.0 == *first);
    expected.extend(first_of.iter().map(|first| whole(number(first).expect("a kind"))));
    expected.extend((0..count).map(|at| whole(kinds.get(at).map_or(0, |kind| kind.1))));
    expected.push(whole(kinds.len()));
    expected
}
