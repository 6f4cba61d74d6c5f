//! Writing by index.

use millstream_core::{DType, Op, ScatterReduction};

use super::TYPES;
use super::gather::{INDEX_TYPES, indices, values};
use crate::{Case, CaseBuilder, Generator, Value, View};

/// Views of output, input (none for in place), indices and updates.
const VIEWS: [(View, Option<View>, View, View); 3] = [
    (View::Dense, Some(View::Dense), View::Dense, View::Dense),
    (View::Mixed, Some(View::Transposed), View::Stepped, View::Transposed),
    (View::Stepped, None, View::Transposed, View::Repeated),
];

fn count(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// Shapes of input, indices and updates.
type Shapes<'a> = [&'a [usize]; 3];

fn add(
    cases: &mut Vec<Case>,
    op: impl Fn(ScatterReduction) -> Op,
    [input, by, updates]: Shapes<'_>,
    fill: impl Fn(&mut Generator) -> Vec<Value>,
) {
    for reduction in ScatterReduction::ALL {
        for dtype in TYPES.into_iter().filter(|&dtype| reduction.takes(dtype)) {
            for (at, (to, from, by_view, update)) in VIEWS.into_iter().enumerate() {
                let op = op(reduction);
                let kind = op.kind().name();
                let name = format!("{kind}/{dtype}/{op:?}-{input:?}-{by:?}-{at}");
                let mut generator = Generator::named(&name);
                let source = values(&mut generator, dtype, count(input));
                let new = values(&mut generator, dtype, count(updates));
                let places = fill(&mut generator);
                let case = CaseBuilder::new(name, op);
                let case = match from {
                    Some(view) => case.input(view.layout(dtype, input), &source),
                    None => case.output(to.layout(dtype, input)).in_place(&source),
                };
                let case = case
                    .input(by_view.layout(INDEX_TYPES[at % 2], by), &places)
                    .input(update.layout(dtype, updates), &new);
                let case = if from.is_some() { case.outputs(&[to]) } else { case };
                cases.push(case.build());
            }
        }
    }
}

pub(super) fn elements() -> Vec<Case> {
    const SHAPES: &[(&[usize], &[usize], usize)] = &[
        (&[5], &[9], 0),
        (&[4, 5], &[4, 5], 0),
        (&[4, 5], &[3, 9], 1),
        (&[3, 4, 5], &[2, 6, 4], 1),
        (&[2, 1, 2, 3, 1, 2, 1, 2], &[2, 1, 2, 4, 1, 2, 1, 2], 3),
        (&[4, 5], &[0, 5], 0),
        (&[0, 5], &[0, 5], 1),
    ];
    let mut cases = Vec::new();
    for &(input, by, axis) in SHAPES {
        let op = |reduction| Op::ScatterElements { axis: axis as u8, reduction };
        add(&mut cases, op, [input, by, by], |generator| {
            indices(generator, count(by), input[axis])
        });
    }
    for (axis, by) in [(0, [1000, 50]), (1, [60, 900])] {
        let op = Op::ScatterElements { axis, reduction: ScatterReduction::Add };
        let name = format!("scatter_elements/f32/large-{axis}");
        cases.push(large(name, op, &by, &by, |generator| indices(generator, count(&by), 60)));
    }
    cases
}

pub(super) fn tuples() -> Vec<Case> {
    const SHAPES: &[(&[usize], &[usize])] = &[
        (&[5], &[1]),
        (&[4, 3], &[9, 2]),
        (&[4, 3], &[6, 1]),
        (&[4, 3, 2], &[2, 3, 2]),
        (&[2, 1, 2, 3, 1, 2, 1, 2], &[6, 4]),
        (&[2, 1, 2, 3, 1, 2, 1, 2], &[6, 8]),
        (&[4, 3], &[0, 2]),
        (&[4, 0], &[2, 1]),
    ];
    let mut cases = Vec::new();
    for &(input, by) in SHAPES {
        let (&tuple, leading) = by.split_last().expect("indices have a last axis");
        let updates = [leading, &input[tuple..]].concat();
        let op = |reduction| Op::ScatterNd { reduction };
        add(&mut cases, op, [input, by, &updates], |generator| {
            let mut places = Vec::new();
            for _ in 0..count(leading) {
                for &size in &input[..tuple] {
                    places.extend(indices(generator, 1, size));
                }
            }
            places
        });
    }
    for (tuple, updates) in [(1, &[900, 70][..]), (2, &[5000])] {
        let op = Op::ScatterNd { reduction: ScatterReduction::Multiply };
        let name = format!("scatter_nd/f32/large-{tuple}");
        let by = [updates[0], tuple];
        cases.push(large(name, op, &by, updates, |generator| indices(generator, count(&by), 60)));
    }
    cases
}

/// Updates of a matrix of 60 by 70, each element of which is met many times.
fn large(
    name: String,
    op: Op,
    by: &[usize],
    updates: &[usize],
    fill: impl Fn(&mut Generator) -> Vec<Value>,
) -> Case {
    let mut generator = Generator::named(&name);
    let source = generator.elements(DType::F32, 60 * 70, 0.5, 1.5);
    let places = fill(&mut generator);
    let new = generator.elements(DType::F32, count(updates), 0.9, 1.1);
    let layout = View::Dense.layout(DType::F32, &[60, 70]);
    CaseBuilder::new(name, op)
        .input(layout, &source)
        .input(View::Dense.layout(DType::I64, by), &places)
        .input(View::Dense.layout(DType::F32, updates), &new)
        .outputs(&[View::Dense])
        .build()
}
