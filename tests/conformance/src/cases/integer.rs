//! Sums of products and convolutions of 8-bit integers.

use millstream_core::{DType, Op};

use super::conv::{PLAIN, VIEWS, parameters, shapes};
use crate::{Case, CaseBuilder, Generator, Value, View};

pub(super) const TYPES: [[DType; 2]; 4] = [
    [DType::U8, DType::I8],
    [DType::U8, DType::U8],
    [DType::I8, DType::I8],
    [DType::I8, DType::U8],
];

/// Numbers over the whole range of a type.
fn values(generator: &mut Generator, dtype: DType, count: usize) -> Vec<Value> {
    generator.elements(dtype, count, 0.0, 0.0)
}

/// The shapes of both sides.
pub(super) type Shapes<'a> = (&'a [usize], &'a [usize]);

/// The shapes of the zero points of both sides.
type Zeros<'a> = (Option<&'a [usize]>, Option<&'a [usize]>);

const PRODUCTS: &[Shapes<'static>] = &[
    (&[1, 1], &[1, 1]),
    (&[3, 7], &[7, 5]),
    (&[17, 64], &[64, 33]),
    (&[2, 0], &[0, 3]),
    (&[0, 4], &[4, 3]),
    (&[4, 2, 5], &[5, 3]),
    (&[2, 5], &[4, 5, 3]),
    (&[2, 1, 4, 6], &[3, 6, 5]),
    (&[9, 130], &[130, 70]),
];

pub(super) fn products() -> Vec<Case> {
    let mut cases = Vec::new();
    for [left, right] in TYPES {
        for &(a, b) in PRODUCTS {
            let (m, n) = (a[a.len() - 2], b[b.len() - 1]);
            let upright = [m, 1];
            let zeros: [Zeros; 5] = [
                (None, None),
                (Some(&[]), None),
                (None, Some(&[])),
                (Some(&[m]), Some(&[n])),
                (Some(&upright), Some(&[1])),
            ];
            for (at, (a_zero, b_zero)) in zeros.into_iter().enumerate() {
                let views = VIEWS[at % VIEWS.len()];
                let name = format!("matmul_integer/{left}-{right}/{a:?}x{b:?}-{at}-{views:?}");
                let mut generator = Generator::named(&name);
                let mut fill =
                    |dtype, shape: &[usize]| values(&mut generator, dtype, shape.iter().product());
                let (has_a, has_b) = (a_zero.is_some(), b_zero.is_some());
                let op = Op::MatMulInteger { a_zero: has_a, b_zero: has_b, rescale: None };
                let mut case = CaseBuilder::new(name, op)
                    .input(views[1].layout(left, a), &fill(left, a))
                    .input(views[2].layout(right, b), &fill(right, b));
                for (zero, dtype) in [(a_zero, left), (b_zero, right)] {
                    if let Some(shape) = zero {
                        case = case.input(View::Shifted.layout(dtype, shape), &fill(dtype, shape));
                    }
                }
                cases.push(case.outputs(&views[..1]).build());
            }
        }
        cases.push(large(left, right));
        cases.push(overflow(left, right));
    }
    cases.extend(super::rescale::products(PRODUCTS));
    cases
}

fn large(left: DType, right: DType) -> Case {
    let name = format!("matmul_integer/{left}-{right}/large");
    let mut generator = Generator::named(&name);
    CaseBuilder::new(name, Op::MatMulInteger { a_zero: false, b_zero: false, rescale: None })
        .input(View::Dense.layout(left, &[261, 11]), &values(&mut generator, left, 261 * 11))
        .input(View::Transposed.layout(right, &[11, 270]), &values(&mut generator, right, 11 * 270))
        .outputs(&[View::Dense])
        .build()
}

/// Sums of the largest products, for which 16 bits do not do.
fn overflow(left: DType, right: DType) -> Case {
    let most = |dtype| Value::Int(if dtype == DType::U8 { 255 } else { -128 });
    CaseBuilder::new(
        format!("matmul_integer/{left}-{right}/most"),
        Op::MatMulInteger { a_zero: false, b_zero: false, rescale: None },
    )
    .input(View::Dense.layout(left, &[2, 3000]), &[most(left); 6000])
    .input(View::Dense.layout(right, &[3000, 3]), &[most(right); 9000])
    .outputs(&[View::Dense])
    .build()
}

pub(super) fn convolutions() -> Vec<Case> {
    let mut cases = Vec::new();
    for [left, right] in TYPES {
        for &(sizes, steps) in PLAIN {
            let params = parameters(sizes.input.len(), steps, 0);
            let [input, weight] = shapes(sizes, &params, false);
            let channels = [weight[0]];
            let zeros: [Zeros; 4] = [
                (None, None),
                (Some(&[]), Some(&[])),
                (Some(&[1]), Some(&channels)),
                (None, Some(&[1])),
            ];
            for (at, (src_zero, weight_zero)) in zeros.into_iter().enumerate() {
                let views = VIEWS[at];
                let name =
                    format!("conv_integer/{left}-{right}/{input:?}x{weight:?}-{steps:?}-{at}");
                let mut generator = Generator::named(&name);
                let mut fill =
                    |dtype, shape: &[usize]| values(&mut generator, dtype, shape.iter().product());
                let op = Op::ConvInteger {
                    params: Box::new(params),
                    src_zero: src_zero.is_some(),
                    weight_zero: weight_zero.is_some(),
                    rescale: None,
                };
                let mut case = CaseBuilder::new(name, op)
                    .input(views[1].layout(left, &input), &fill(left, &input))
                    .input(views[2].layout(right, &weight), &fill(right, &weight));
                for (zero, dtype) in [(src_zero, left), (weight_zero, right)] {
                    if let Some(shape) = zero {
                        case = case.input(View::Shifted.layout(dtype, shape), &fill(dtype, shape));
                    }
                }
                cases.push(case.outputs(&views[..1]).build());
            }
        }
    }
    cases.extend(super::rescale::convolutions());
    cases
}
