//! Fourier transforms.

use millstream_core::{DType, Op};

use super::FLOATS;
use crate::{Case, CaseBuilder, Generator, View};

const VIEWS: [[View; 2]; 3] = [
    [View::Dense, View::Dense],
    [View::Mixed, View::Transposed],
    [View::Transposed, View::Stepped],
];

const LENGTHS: &[usize] = &[1, 2, 3, 4, 5, 8, 12, 13, 30, 37, 64];

pub(super) fn whole() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in FLOATS {
        for (inverse, onesided, parts) in [
            (false, false, 1),
            (false, false, 2),
            (true, false, 1),
            (true, false, 2),
            (false, true, 1),
            (true, true, 2),
        ] {
            for &length in LENGTHS {
                for (at, views) in VIEWS.into_iter().enumerate() {
                    // The axis is first, in the middle, and the last before the parts.
                    let op = Op::Dft { axis: at as u8, inverse, onesided, length };
                    let mut shape = [2, 3, 2, parts];
                    // Only half of what is transformed back is there.
                    shape[at] = if inverse && onesided { length / 2 + 1 } else { length };
                    cases.push(transform(dtype, op, shape, views));
                }
            }
        }
        let none = Op::Dft { axis: 1, inverse: false, onesided: false, length: 3 };
        cases.push(transform(dtype, none, [0, 3, 1, 1], VIEWS[0]));
    }
    for length in [360, 397, 1024] {
        let op = Op::Dft { axis: 1, inverse: false, onesided: false, length };
        cases.push(transform(DType::F32, op, [2, length, 1, 2], VIEWS[0]));
    }
    cases
}

fn transform(dtype: DType, op: Op, shape: [usize; 4], views: [View; 2]) -> Case {
    let name = format!("dft/{dtype}/{op:?}-{shape:?}-{views:?}");
    let mut generator = Generator::named(&name);
    let values = generator.elements(dtype, shape.iter().product(), -1.0, 1.0);
    CaseBuilder::new(name, op)
        .input(views[1].layout(dtype, &shape), &values)
        .outputs(&views[..1])
        .build()
}

pub(super) fn frames() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in FLOATS {
        for (batch, samples, frame, hop) in
            [(2, 20, 8, 3), (1, 7, 7, 1), (1, 9, 1, 2), (3, 50, 11, 20), (0, 9, 4, 2)]
        {
            for (onesided, parts) in [(false, 1), (false, 2), (true, 1)] {
                for window in [false, true] {
                    for views in VIEWS {
                        let op = Op::Stft { frame: frame as u32, hop, onesided, window };
                        let name =
                            format!("stft/{dtype}/{batch}x{samples}-{parts}-{op:?}-{views:?}");
                        let mut generator = Generator::named(&name);
                        let signal = [batch, samples, parts];
                        let mut values = |count: usize| generator.elements(dtype, count, -1.0, 1.0);
                        let mut case = CaseBuilder::new(name, op).input(
                            views[1].layout(dtype, &signal),
                            &values(batch * samples * parts),
                        );
                        if window {
                            case =
                                case.input(View::Stepped.layout(dtype, &[frame]), &values(frame));
                        }
                        cases.push(case.outputs(&views[..1]).build());
                    }
                }
            }
        }
    }
    cases
}
