//! Products with weights of few bits.

use millstream_core::{DType, Epilogue, Op};

use super::matmul::ACTIVATIONS;
use crate::{Case, CaseBuilder, Generator, View};

/// The shape of the left side, columns, and weights of a block.
const PRODUCTS: &[(&[usize], usize, usize)] = &[
    (&[1, 1], 1, 16),
    (&[1, 32], 3, 32),
    (&[1, 70], 67, 16),
    (&[3, 100], 9, 64),
    (&[2, 0], 3, 32),
    (&[0, 40], 3, 32),
    (&[4, 2, 65], 5, 32),
    (&[2, 1, 9, 130], 6, 128),
    (&[17, 600], 70, 32),
    (&[37, 520], 33, 256),
];

/// Outputs and left sides laid out in different ways.
const VIEWS: [[View; 2]; 3] =
    [[View::Dense, View::Dense], [View::Mixed, View::Stepped], [View::Shifted, View::Transposed]];

/// What zero points are.
#[derive(Clone, Copy, Debug)]
enum Zeros {
    Middle,
    Packed,
    Numbers,
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for (which, dtype) in [DType::F32, DType::F16, DType::BF16].into_iter().enumerate() {
        for (at, &product) in PRODUCTS.iter().enumerate() {
            for (more, (bits, zeros)) in [
                (4, Zeros::Middle),
                (4, Zeros::Packed),
                (4, Zeros::Numbers),
                (8, Zeros::Packed),
                (8, Zeros::Middle),
                (2, Zeros::Packed),
            ]
            .into_iter()
            .enumerate()
            {
                all.push(case(dtype, bits, zeros, product, which + at + more));
            }
        }
    }
    all
}

fn case(
    dtype: DType,
    bits: u8,
    zeros: Zeros,
    (a, n, block): (&[usize], usize, usize),
    at: usize,
) -> Case {
    let name = format!("matmul_blocks/{dtype}-{bits}-{zeros:?}/{a:?}x{n}-{block}");
    let mut generator = Generator::named(&name);
    let (m, k) = (a[a.len() - 2], a[a.len() - 1]);
    let (blocks, wide) = (k.div_ceil(block), usize::from(bits));
    let (bias, residual) = (at % 3 == 1, at % 4 == 2);
    let scale = if at.is_multiple_of(5) { 0.5 } else { 1.0 };
    let activation = ACTIVATIONS[at % ACTIVATIONS.len()];
    let op = Op::MatMulBlocks {
        bits,
        block: block as u16,
        zeros: !matches!(zeros, Zeros::Middle),
        epilogue: Epilogue { scale, bias, residual, activation },
    };
    let views = VIEWS[at % VIEWS.len()];
    let mut input = |case: CaseBuilder, view: View, dtype, shape: &[usize], reach: f64| {
        let values = generator.elements(dtype, shape.iter().product(), -reach, reach);
        case.input(view.layout(dtype, shape), &values)
    };
    // Weights lie densely, but anywhere.
    let place = if at.is_multiple_of(2) { View::Dense } else { View::Shifted };
    let most = 2.0 / f64::from(1u32 << bits);
    let mut case = input(CaseBuilder::new(name, op), views[1], dtype, a, 1.0);
    case = input(case, place, DType::U8, &[n, blocks, block * wide / 8], 0.0);
    case = input(case, View::Stepped, dtype, &[n, blocks], most);
    case = match zeros {
        Zeros::Middle => case,
        Zeros::Packed => {
            input(case, View::Shifted, DType::U8, &[n, (blocks * wide).div_ceil(8)], 0.0)
        }
        Zeros::Numbers => input(case, View::Transposed, dtype, &[n, blocks], 8.0),
    };
    if bias {
        case = input(case, View::Dense, dtype, &[n], 2.0);
    }
    if residual {
        case = input(case, View::Transposed, dtype, &[m, n], 2.0);
    }
    case.outputs(&views[..1]).build()
}
