//! Padding and cropping.

use millstream_core::{DType, MAX_RANK, PadMode, PadParams, Scalar};

use super::TYPES;
use super::gather::values;
use crate::{Case, CaseBuilder, Generator, View, ops};

/// A shape, and the widths before and after each axis.
type Padding = (&'static [usize], &'static [(i64, i64)]);

const WIDTHS: &[Padding] = &[
    (&[], &[]),
    (&[5], &[(2, 3)]),
    (&[5], &[(0, 0)]),
    (&[5], &[(-1, -2)]),
    (&[5], &[(-2, 3)]),
    (&[5], &[(4, -3)]),
    (&[3], &[(7, 8)]),
    (&[1], &[(2, 2)]),
    (&[4, 5], &[(1, 2), (3, 0)]),
    (&[4, 5], &[(2, 1), (0, 0)]),
    (&[4, 5], &[(-1, 2), (1, -2)]),
    (&[2, 3, 4, 3], &[(0, 0), (1, 1), (2, 2), (0, 0)]),
    (&[2, 3, 4, 3], &[(0, 0), (0, 0), (1, 3), (2, 1)]),
    (&[2, 1, 2, 3, 1, 2, 1, 2], &[(0, 1), (1, 0), (0, 0), (1, 1), (0, 0), (-1, 0), (0, 1), (1, 0)]),
    (&[0, 3], &[(0, 0), (1, 1)]),
    (&[4, 3], &[(-4, 0), (1, 1)]),
];

/// Widths that only a constant can fill.
const FROM_NOTHING: &[Padding] =
    &[(&[0], &[(2, 1)]), (&[2, 0], &[(1, 1), (2, 1)]), (&[3], &[(-3, 2)])];

fn modes() -> Vec<PadMode> {
    let mut modes = vec![PadMode::Edge, PadMode::Reflect, PadMode::Wrap];
    modes.extend(
        [Scalar::Int(-3), Scalar::Float(2.5), Scalar::Float(f64::NAN)].map(PadMode::Constant),
    );
    modes
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in TYPES {
        for mode in modes() {
            let constant = matches!(mode, PadMode::Constant(_));
            let more = FROM_NOTHING.iter().filter(|_| constant);
            for (shape, widths) in WIDTHS.iter().chain(more) {
                for (output, input) in [
                    (View::Dense, View::Dense),
                    (View::Mixed, View::Transposed),
                    (View::Stepped, View::Repeated),
                ] {
                    cases.push(case("", dtype, mode, shape, widths, (output, input)));
                }
            }
        }
    }
    for mode in [PadMode::Constant(Scalar::Int(1)), PadMode::Reflect] {
        let widths = [(0, 0), (3, 2), (5, 4)];
        let views = (View::Dense, View::Dense);
        cases.push(case("large-", DType::F32, mode, &[7, 90, 131], &widths, views));
    }
    cases
}

fn case(
    prefix: &str,
    dtype: DType,
    mode: PadMode,
    shape: &[usize],
    widths: &[(i64, i64)],
    (output, input): (View, View),
) -> Case {
    let mut params = PadParams { mode, before: [0; MAX_RANK], after: [0; MAX_RANK] };
    for (axis, &(before, after)) in widths.iter().enumerate() {
        (params.before[axis], params.after[axis]) = (before, after);
    }
    let name = format!("pad/{dtype}/{prefix}{mode:?}-{shape:?}-{widths:?}-{output:?}-{input:?}");
    let elements = values(&mut Generator::named(&name), dtype, shape.iter().product());
    CaseBuilder::new(name, ops::pad(params))
        .input(input.layout(dtype, shape), &elements)
        .outputs(&[output])
        .build()
}
