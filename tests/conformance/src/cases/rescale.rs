//! What is made of sums of products and convolutions of 8-bit integers.

use millstream_core::{DType, Op, Rescale};

use super::conv::{PLAIN, VIEWS, parameters, shapes};
use super::integer::{Shapes, TYPES};
use super::matmul::ACTIVATIONS;
use crate::{Case, CaseBuilder, Generator, Value, View};

const MADE: [DType; 5] = [DType::F32, DType::F16, DType::BF16, DType::U8, DType::I8];

/// What is added, if anything: the bias in sums or in numbers, and the residual.
fn rescale(dtype: DType, at: usize) -> (Rescale, DType) {
    let is_byte = matches!(dtype, DType::U8 | DType::I8);
    let computed = if is_byte { DType::F32 } else { dtype };
    let rescale = Rescale {
        dtype,
        bias: !at.is_multiple_of(3),
        residual: at % 4 == 1,
        activation: ACTIVATIONS[at % ACTIVATIONS.len()],
        zero: is_byte && at.is_multiple_of(2),
    };
    (rescale, if at % 3 == 1 { DType::I32 } else { computed })
}

/// Adds what follows the zero points. Sums of `k` products become numbers of a few units.
fn extras(
    mut case: CaseBuilder,
    generator: &mut Generator,
    (rescale, bias_type): (&Rescale, DType),
    scales: [&[usize]; 2],
    (bias, residual): (&[usize], &[usize]),
    k: usize,
) -> CaseBuilder {
    let most = 0.02 / (k.max(1) as f64).sqrt().sqrt();
    for shape in scales {
        let values = generator.elements(DType::F32, shape.iter().product(), most / 4.0, most);
        case = case.input(View::Stepped.layout(DType::F32, shape), &values);
    }
    if rescale.bias {
        let count = bias.iter().product();
        let values: Vec<Value> = match bias_type {
            DType::I32 => {
                (0..count).map(|_| Value::Int(generator.below(40_000) as i128 - 20_000)).collect()
            }
            _ => generator.elements(bias_type, count, -3.0, 3.0),
        };
        case = case.input(View::Shifted.layout(bias_type, bias), &values);
    }
    if rescale.residual {
        let dtype = if rescale.is_byte() { DType::F32 } else { rescale.dtype };
        let values = generator.elements(dtype, residual.iter().product(), -2.0, 2.0);
        case = case.input(View::Transposed.layout(dtype, residual), &values);
    }
    if rescale.is_byte() {
        // Some numbers are out of range.
        case = case.input(View::Dense.layout(DType::F32, &[]), &[Value::Float(0.0625)]);
    }
    if rescale.zero {
        let values = generator.elements(rescale.dtype, 1, 0.0, 0.0);
        case = case.input(View::Shifted.layout(rescale.dtype, &[1]), &values);
    }
    case
}

pub(super) fn products(shapes: &[Shapes<'static>]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (made, dtype) in MADE.into_iter().enumerate() {
        for (which, &(a, b)) in shapes.iter().enumerate() {
            for more in 0..2 {
                let at = made + 2 * which + 5 * more;
                let [left, right] = TYPES[at % 4];
                let views = VIEWS[at % VIEWS.len()];
                let (rescale, bias_type) = rescale(dtype, at);
                let (m, n) = (a[a.len() - 2], b[b.len() - 1]);
                let (a_zero, b_zero) = (at.is_multiple_of(2), at % 5 < 3);
                let name = format!("matmul_integer/{left}-{right}-{dtype}/{a:?}x{b:?}-{at}");
                let op = Op::MatMulInteger { a_zero, b_zero, rescale: Some(rescale) };
                let mut generator = Generator::named(&name);
                let mut bytes = |dtype, shape: &[usize]| {
                    generator.elements(dtype, shape.iter().product(), 0.0, 0.0)
                };
                let mut case = CaseBuilder::new(name, op)
                    .input(views[1].layout(left, a), &bytes(left, a))
                    .input(views[2].layout(right, b), &bytes(right, b));
                if a_zero {
                    case = case.input(View::Dense.layout(left, &[m]), &bytes(left, &[m]));
                }
                if b_zero {
                    case = case.input(View::Dense.layout(right, &[n]), &bytes(right, &[n]));
                }
                let upright = [m, 1];
                let scales: [&[usize]; 2] = match at % 4 {
                    0 => [&[], &[n]],
                    1 => [&[m], &[]],
                    2 => [&upright, &[n]],
                    _ => [&[1], &[1]],
                };
                let full = [m, n];
                let added = (if at % 5 == 2 { &full[..] } else { &full[1..] }, &full[..]);
                let k = b[b.len() - 2];
                let rescale = (&rescale, bias_type);
                case = extras(case, &mut generator, rescale, scales, added, k);
                cases.push(case.outputs(&views[..1]).build());
            }
        }
    }
    cases
}

pub(super) fn convolutions() -> Vec<Case> {
    let mut cases = Vec::new();
    for (made, dtype) in MADE.into_iter().enumerate() {
        for (which, &(sizes, steps)) in PLAIN.iter().enumerate() {
            let at = made + 2 * which;
            let [left, right] = TYPES[at % 4];
            let views = VIEWS[at % VIEWS.len()];
            let params = parameters(sizes.input.len(), steps, 0);
            let [input, weight] = shapes(sizes, &params, false);
            let (rescale, bias_type) = rescale(dtype, at);
            let (src_zero, weight_zero) = (at.is_multiple_of(2), at % 5 < 3);
            let name = format!("conv_integer/{left}-{right}-{dtype}/{input:?}x{weight:?}-{at}");
            let op = Op::ConvInteger {
                params: Box::new(params),
                src_zero,
                weight_zero,
                rescale: Some(rescale),
            };
            let mut generator = Generator::named(&name);
            let mut bytes = |dtype, shape: &[usize]| {
                generator.elements(dtype, shape.iter().product(), 0.0, 0.0)
            };
            let mut case = CaseBuilder::new(name, op)
                .input(views[1].layout(left, &input), &bytes(left, &input))
                .input(views[2].layout(right, &weight), &bytes(right, &weight));
            if src_zero {
                case = case.input(View::Dense.layout(left, &[]), &bytes(left, &[]));
            }
            let channels = [weight[0]];
            if weight_zero {
                case = case.input(View::Dense.layout(right, &channels), &bytes(right, &channels));
            }
            let scales: [&[usize]; 2] =
                if at.is_multiple_of(3) { [&[1], &[]] } else { [&[], &channels] };
            // A residual that repeats over the batch.
            let residual = [&[1, weight[0]], &vec![1; sizes.input.len()][..]].concat();
            let k = weight[1..].iter().product();
            let added = (&channels[..], &residual[..]);
            case = extras(case, &mut generator, (&rescale, bias_type), scales, added, k);
            cases.push(case.outputs(&views[..1]).build());
        }
    }
    cases
}
