//! Fourier transforms.

use millstream_core::DType;

use super::FLOATS;
use crate::{Case, CaseBuilder, Generator, Spec, View};

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
            (false, false, [1, 2]),
            (false, false, [2, 2]),
            (true, false, [1, 2]),
            (true, false, [2, 2]),
            (false, true, [1, 2]),
            (true, true, [2, 1]),
        ] {
            for &length in LENGTHS {
                for (at, views) in VIEWS.into_iter().enumerate() {
                    // The axis is first, in the middle, and the last before the parts.
                    let spec = Spec::Dft { axis: at, inverse, onesided };
                    let half = length / 2 + 1;
                    let [inputs, outputs] = match (inverse, onesided) {
                        (false, true) => [length, half],
                        (true, true) => [half, length],
                        _ => [length; 2],
                    };
                    let shape = |size: usize, parts: usize| {
                        let mut shape = [2, 3, 2, parts];
                        shape[at] = size;
                        shape
                    };
                    let shapes = [shape(outputs, parts[1]), shape(inputs, parts[0])];
                    cases.push(case("dft", dtype, spec, shapes, views));
                }
            }
        }
        let none = Spec::Dft { axis: 1, inverse: false, onesided: false };
        cases.push(case("dft", dtype, none, [[0, 3, 1, 2], [0, 3, 1, 1]], VIEWS[0]));
    }
    for length in [360, 397, 1024] {
        let spec = Spec::Dft { axis: 1, inverse: false, onesided: false };
        let shape = [2, length, 1, 2];
        cases.push(case("dft", DType::F32, spec, [shape; 2], VIEWS[0]));
    }
    cases
}

fn case(kind: &str, dtype: DType, spec: Spec, shapes: [[usize; 4]; 2], views: [View; 2]) -> Case {
    let name = format!("{kind}/{dtype}/{spec:?}-{shapes:?}-{views:?}");
    let mut generator = Generator::named(&name);
    let values = generator.elements(dtype, shapes[1].iter().product(), -1.0, 1.0);
    CaseBuilder::new(name, spec)
        .output(views[0].layout(dtype, &shapes[0]))
        .input(views[1].layout(dtype, &shapes[1]), &values)
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
                        let bins = if onesided { frame / 2 + 1 } else { frame };
                        let spec = Spec::Stft { frame, hop, onesided, window };
                        let name =
                            format!("stft/{dtype}/{batch}x{samples}-{parts}-{spec:?}-{views:?}");
                        let mut generator = Generator::named(&name);
                        let signal = [batch, samples, parts];
                        let mut values = |count: usize| generator.elements(dtype, count, -1.0, 1.0);
                        let to = [batch, (samples - frame) / hop + 1, bins, 2];
                        let mut case =
                            CaseBuilder::new(name, spec).output(views[0].layout(dtype, &to)).input(
                                views[1].layout(dtype, &signal),
                                &values(batch * samples * parts),
                            );
                        if window {
                            case =
                                case.input(View::Stepped.layout(dtype, &[frame]), &values(frame));
                        }
                        cases.push(case.build());
                    }
                }
            }
        }
    }
    cases
}
