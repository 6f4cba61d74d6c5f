//! Elements at places that a grid names.

use millstream_core::{DType, GridMode, GridPadding, Op};

use crate::{Case, CaseBuilder, Generator, Value, View, round_to};

const TYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];
const MODES: [GridMode; 3] = [GridMode::Nearest, GridMode::Linear, GridMode::Cubic];
const PADDINGS: [GridPadding; 3] =
    [GridPadding::Zeros, GridPadding::Border, GridPadding::Reflection];

/// Shapes of input and grid.
const SHAPES: &[(&[usize], &[usize])] = &[
    (&[2, 3, 5, 7], &[2, 4, 6, 2]),
    (&[1, 2, 3, 4, 5], &[1, 2, 3, 4, 3]),
    (&[2, 1, 1, 1], &[2, 3, 2, 2]),
    (&[1, 2, 4, 4], &[1, 0, 3, 2]),
];

const VIEWS: [[View; 3]; 2] =
    [[View::Dense, View::Dense, View::Dense], [View::Mixed, View::Transposed, View::Stepped]];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in TYPES {
        for mode in MODES {
            for padding in PADDINGS {
                for align_corners in [false, true] {
                    let op = Op::GridSample { mode, padding, align_corners };
                    for (at, &(src, grid)) in SHAPES.iter().enumerate() {
                        cases.push(case(dtype, op.clone(), src, grid, VIEWS[(at + 1) % 2]));
                    }
                }
            }
        }
    }
    let op = Op::GridSample {
        mode: GridMode::Linear,
        padding: GridPadding::Zeros,
        align_corners: false,
    };
    cases.push(case(DType::F32, op, &[2, 8, 40, 50], &[2, 90, 70, 2], VIEWS[0]));
    cases
}

fn case(dtype: DType, op: Op, src: &[usize], grid: &[usize], views: [View; 3]) -> Case {
    let name = format!("grid_sample/{dtype}/{op:?}-{src:?}-{grid:?}");
    let mut generator = Generator::named(&name);
    let values = generator.elements(dtype, src.iter().product(), -4.0, 4.0);
    // Within, around the edges, far outside, and nowhere.
    let special = [-1.0, 1.0, 0.0, -0.5, 0.25, -1.5, 3.0, 1e30, f64::NEG_INFINITY, f64::NAN];
    let point = |_| match generator.below(4) {
        0 => Value::Float(round_to(dtype, special[generator.below(special.len())])),
        _ => generator.element(dtype, -1.4, 1.4),
    };
    let points: Vec<Value> = (0..grid.iter().product()).map(point).collect();
    CaseBuilder::new(name, op)
        .input(views[1].layout(dtype, src), &values)
        .input(views[2].layout(dtype, grid), &points)
        .outputs(&views[..1])
        .build()
}
