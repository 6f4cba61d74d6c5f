//! Reading by index.

use millstream_core::{DType, Op};

use super::TYPES;
use crate::generator::special_values;
use crate::{Case, CaseBuilder, Generator, Value, View};

/// Views of output, input and indices.
const VIEWS: [[View; 3]; 4] = [
    [View::Dense, View::Dense, View::Dense],
    [View::Mixed, View::Transposed, View::Stepped],
    [View::Transposed, View::Shifted, View::Transposed],
    [View::Stepped, View::Repeated, View::Mixed],
];

pub(super) const INDEX_TYPES: [DType; 2] = [DType::I64, DType::I32];

/// Indices for an axis, a few of them from its end.
pub(super) fn indices(generator: &mut Generator, count: usize, size: usize) -> Vec<Value> {
    let one = |_| generator.below(2 * size) as i128 - size as i128;
    if size == 0 { Vec::new() } else { (0..count).map(one).map(Value::Int).collect() }
}

fn count(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// Values of a type, special ones among them.
pub(super) fn values(generator: &mut Generator, dtype: DType, count: usize) -> Vec<Value> {
    let special = special_values(dtype);
    let mut values = generator.elements(dtype, count, -9.0, 9.0);
    for value in values.iter_mut().step_by(5) {
        *value = special[generator.below(special.len())];
    }
    values
}

/// Cases of one operation, by the shapes of input and indices.
fn add(
    cases: &mut Vec<Case>,
    op: &Op,
    [input, indices]: [&[usize]; 2],
    mut fill: impl FnMut(&mut Generator) -> Vec<Value>,
) {
    for dtype in TYPES {
        for (at, [to, from, by]) in VIEWS.into_iter().enumerate() {
            let index_type = INDEX_TYPES[at % 2];
            let kind = op.kind().name();
            let name = format!("{kind}/{dtype}/{op:?}-{input:?}-{indices:?}-{at}");
            let mut generator = Generator::named(&name);
            let source = values(&mut generator, dtype, count(input));
            let by_values = fill(&mut generator);
            cases.push(
                CaseBuilder::new(name, op.clone())
                    .input(from.layout(dtype, input), &source)
                    .input(by.layout(index_type, indices), &by_values)
                    .outputs(&[to])
                    .build(),
            );
        }
    }
}

pub(super) fn along() -> Vec<Case> {
    const SHAPES: &[(&[usize], &[usize], usize)] = &[
        (&[5], &[], 0),
        (&[5], &[7], 0),
        (&[5, 3], &[4], 0),
        (&[3, 5], &[2, 3], 1),
        (&[2, 4, 3], &[2, 2], 1),
        (&[2, 4, 3], &[], 2),
        (&[2, 1, 2, 3, 1, 2, 1, 2], &[3], 3),
        (&[2, 3], &[1, 2, 1, 2, 1, 1, 2], 0),
        (&[3, 4], &[0], 1),
        (&[3, 0], &[2], 0),
        (&[0, 4], &[3], 1),
    ];
    let mut cases = Vec::new();
    for &(input, by, axis) in SHAPES {
        add(&mut cases, &Op::Gather { axis: axis as u8 }, [input, by], |generator| {
            indices(generator, count(by), input[axis])
        });
    }
    cases.extend(large());
    cases
}

pub(super) fn embeddings() -> Vec<Case> {
    const SHAPES: &[(&[usize], &[usize])] =
        &[(&[5, 7], &[4]), (&[5, 7], &[2, 3]), (&[5, 2, 2], &[3]), (&[9, 1], &[]), (&[4, 3], &[0])];
    let mut cases = Vec::new();
    for &(table, ids) in SHAPES {
        add(&mut cases, &Op::Embedding, [table, ids], |generator| {
            indices(generator, count(ids), table[0])
        });
    }
    cases
}

pub(super) fn elements() -> Vec<Case> {
    const SHAPES: &[(&[usize], &[usize], usize)] = &[
        (&[5], &[9], 0),
        (&[4, 5], &[4, 5], 0),
        (&[4, 5], &[4, 3], 1),
        (&[4, 5], &[2, 9], 1),
        (&[3, 4, 5], &[2, 6, 4], 1),
        (&[2, 1, 2, 3, 1, 2, 1, 2], &[2, 1, 2, 4, 1, 2, 1, 2], 3),
        (&[4, 5], &[0, 5], 0),
        (&[0, 5], &[0, 5], 1),
    ];
    let mut cases = Vec::new();
    for &(input, by, axis) in SHAPES {
        add(&mut cases, &Op::GatherElements { axis: axis as u8 }, [input, by], |generator| {
            indices(generator, count(by), input[axis])
        });
    }
    cases
}

pub(super) fn tuples() -> Vec<Case> {
    const SHAPES: &[(&[usize], &[usize], usize)] = &[
        (&[5], &[1], 0),
        (&[4, 3], &[5, 2], 0),
        (&[4, 3], &[5, 1], 0),
        (&[4, 3, 2], &[2, 3, 2], 0),
        (&[2, 3, 4], &[2, 1], 1),
        (&[2, 3, 4], &[2, 3, 1], 2),
        (&[2, 3, 4, 2], &[2, 5, 2], 1),
        (&[2, 1, 2, 3, 1, 2, 1, 2], &[2, 8], 0),
        (&[2, 1, 2, 3, 1, 2, 1, 2], &[2, 3, 4], 1),
        (&[4, 3], &[0, 2], 0),
        (&[4, 0], &[2, 1], 0),
    ];
    let mut cases = Vec::new();
    for &(input, by, batch_axes) in SHAPES {
        let (&tuple, leading) = by.split_last().expect("indices have a last axis");
        let op = Op::GatherNd { batch_axes: batch_axes as u8 };
        add(&mut cases, &op, [input, by], |generator| {
            let sizes = &input[batch_axes..batch_axes + tuple];
            (0..count(leading))
                .flat_map(|_| {
                    sizes.iter().flat_map(|&s| indices(generator, 1, s)).collect::<Vec<_>>()
                })
                .collect()
        });
    }
    cases
}

/// Many slices, long slices, and single elements, split between threads.
fn large() -> Vec<Case> {
    const SHAPES: [([usize; 2], usize, usize); 3] =
        [([50, 67], 2000, 0), ([3, 50_000], 2, 0), ([300, 70], 411, 1)];
    let build = |(input, by, axis): ([usize; 2], usize, usize)| {
        let name = format!("gather/f32/large-{input:?}-{axis}");
        let mut generator = Generator::named(&name);
        let source = generator.elements(DType::F32, count(&input), -9.0, 9.0);
        let index = indices(&mut generator, by, input[axis]);
        CaseBuilder::new(name, Op::Gather { axis: axis as u8 })
            .input(View::Dense.layout(DType::F32, &input), &source)
            .input(View::Dense.layout(DType::I64, &[by]), &index)
            .outputs(&[View::Dense])
            .build()
    };
    SHAPES.into_iter().map(build).collect()
}
