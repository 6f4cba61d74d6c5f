//! Caches, and positions in them.

use millstream_core::{DType, Op};

use super::FLOATS;
use super::gather::{INDEX_TYPES, values};
use crate::{Case, CaseBuilder, Generator, Value, View};

fn count(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// Views of output, cache (none for in place), update and positions.
const WRITES: [(View, Option<View>, View, View); 3] = [
    (View::Dense, None, View::Dense, View::Dense),
    (View::Mixed, Some(View::Transposed), View::Stepped, View::Stepped),
    (View::Stepped, None, View::Transposed, View::Dense),
];

/// Shape of a cache, the axis, and how much of it is written.
const SHAPES: &[(&[usize], usize, usize)] = &[
    (&[3, 2, 7, 4], 2, 3),
    (&[2, 5, 6], 1, 5),
    (&[2, 3, 5], 2, 1),
    (&[1, 300, 4, 64], 1, 2),
    (&[4, 3], 1, 3),
    (&[2, 3, 5], 1, 0),
    (&[0, 3, 5], 1, 2),
    (&[2, 2, 3, 1, 2, 1, 4, 2], 6, 3),
];

pub(super) fn writes() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in DType::COMPUTED {
        // Elements of one size are moved alike.
        let all = [DType::F32, DType::F16, DType::U8, DType::I64].contains(&dtype);
        for &(shape, axis, part) in &SHAPES[..if all { SHAPES.len() } else { 1 }] {
            for (at, (to, from, update, by)) in WRITES.into_iter().enumerate() {
                for (circular, positions) in [(false, true), (true, true), (false, false)] {
                    // Without positions one view is enough.
                    if !positions && at > 0 {
                        continue;
                    }
                    let name = format!(
                        "cache_write/{dtype}/{shape:?}-{axis}-{part}-{at}-{circular}-{positions}"
                    );
                    let mut generator = Generator::named(&name);
                    let op = Op::CacheWrite { axis: axis as u8, circular, positions };
                    let old = values(&mut generator, dtype, count(shape));
                    let mut new_shape = shape.to_vec();
                    new_shape[axis] = part;
                    let new = values(&mut generator, dtype, count(&new_shape));
                    let case = CaseBuilder::new(name, op);
                    let case = match from {
                        Some(view) => case.input(view.layout(dtype, shape), &old),
                        None => case.output(to.layout(dtype, shape)).in_place(&old),
                    };
                    let case = case.input(update.layout(dtype, &new_shape), &new);
                    let case = if positions {
                        let room = shape[axis] - part + 1;
                        let place = |generator: &mut Generator| match circular {
                            true => generator.below(5 * shape[axis]) as i128 - 2,
                            false => generator.below(room) as i128,
                        };
                        let places: Vec<_> =
                            (0..shape[0]).map(|_| Value::Int(place(&mut generator))).collect();
                        case.input(by.layout(INDEX_TYPES[at % 2], &shape[..1]), &places)
                    } else {
                        case
                    };
                    let case = if from.is_some() { case.outputs(&[to]) } else { case };
                    cases.push(case.build());
                }
            }
        }
    }
    cases
}

/// Views of output, source (none for in place), tables and positions.
const ROPES: [(View, Option<View>, View, View); 3] = [
    (View::Dense, Some(View::Dense), View::Dense, View::Dense),
    (View::Mixed, Some(View::Transposed), View::Stepped, View::Stepped),
    (View::Transposed, None, View::Transposed, View::Repeated),
];

/// Batch, heads, length, size and pairs.
const SIZES: &[[usize; 5]] = &[
    [2, 3, 5, 8, 4],
    [1, 2, 4, 10, 3],
    [2, 1, 3, 7, 3],
    [1, 2, 2, 300, 150],
    [1, 1, 3, 5, 0],
    [2, 2, 0, 4, 2],
    [2, 2, 3, 0, 0],
];

pub(super) fn ropes() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in FLOATS {
        let count_of_sizes = if dtype == DType::F32 { SIZES.len() } else { 3 };
        for &[batch, heads, length, size, pairs] in &SIZES[..count_of_sizes] {
            for (at, (to, from, table, by)) in ROPES.into_iter().enumerate() {
                for (interleaved, positions) in
                    [(false, false), (false, true), (true, false), (true, true)]
                {
                    let shape = [batch, heads, length, size];
                    let name =
                        format!("rope/{dtype}/{shape:?}-{pairs}-{at}-{interleaved}-{positions}");
                    let mut generator = Generator::named(&name);
                    let mut floats =
                        |shape: &[usize]| generator.elements(dtype, count(shape), -2.0, 2.0);
                    let op = Op::Rope { interleaved, positions };
                    let source = floats(&shape);
                    let rows: &[usize] =
                        if positions { &[11, pairs] } else { &[batch, length, pairs] };
                    let (cos, sin) = (floats(rows), floats(rows));
                    let case = CaseBuilder::new(name, op);
                    let case = match from {
                        Some(view) => case.input(view.layout(dtype, &shape), &source),
                        None => case.output(to.layout(dtype, &shape)).in_place(&source),
                    };
                    let case = case
                        .input(table.layout(dtype, rows), &cos)
                        .input(View::Dense.layout(dtype, rows), &sin);
                    let case = if positions {
                        let places: Vec<_> = (0..batch * length)
                            .map(|_| Value::Int(generator.below(11) as i128))
                            .collect();
                        let by = by.layout(INDEX_TYPES[at % 2], &[batch, length]);
                        case.input(by, &places)
                    } else {
                        case
                    };
                    let case = if from.is_some() { case.outputs(&[to]) } else { case };
                    cases.push(case.build());
                }
            }
        }
    }
    cases
}
