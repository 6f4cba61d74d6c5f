//! Boxes without those that overlap a better one.

use millstream_core::{DType, Op};

use crate::{Case, CaseBuilder, Generator, Value, View};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let dense = [View::Dense; 4];
    let mixed = [View::Mixed, View::Shifted, View::Transposed, View::Stepped];
    for [batch, classes, boxes] in
        [[1, 1, 6], [2, 3, 40], [1, 2, 300], [0, 2, 5], [2, 0, 5], [1, 2, 0], [1, 1, 1]]
    {
        for (most, overlap, score, centered) in [
            (3, 0.5, Some(0.3), false),
            (usize::MAX, 0.5, None, true),
            (4, 0.0, None, false),
            (7, 1.0, Some(0.6), true),
            (0, 0.5, None, false),
        ] {
            for views in [dense, mixed] {
                let op = Op::NonMaxSuppression { most, overlap, score, centered };
                let name = format!(
                    "suppress/{batch}-{classes}-{boxes}-{most}-{overlap}-{score:?}-{views:?}"
                );
                cases.push(case(name, op, [batch, classes, boxes], views));
            }
        }
    }
    cases
}

fn case(
    name: String,
    op: Op,
    [batch, classes, boxes]: [usize; 3],
    [selected, count, box_view, score_view]: [View; 4],
) -> Case {
    let mut generator = Generator::named(&name);
    let number = |value: f64| Value::Float(f64::from(value as f32));
    // Corners of a coarse grid, so that many overlap, and some just at the limit.
    let corners: Vec<Value> =
        (0..batch * boxes * 4).map(|_| number(generator.below(9) as f64 * 0.25)).collect();
    let mut scores: Vec<Value> =
        (0..batch * classes * boxes).map(|_| number(generator.below(40) as f64 / 40.0)).collect();
    if let Some(score) = scores.get_mut(4) {
        *score = Value::Float(f64::NAN);
    }
    CaseBuilder::new(name, op)
        .input(box_view.layout(DType::F32, &[batch, boxes, 4]), &corners)
        .input(score_view.layout(DType::F32, &[batch, classes, boxes]), &scores)
        .outputs(&[selected, count])
        .build()
}
