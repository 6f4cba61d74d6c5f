//! Matrix products.

use millstream_core::{Activation, DType, Op};

use super::FLOATS;
use crate::{Case, CaseBuilder, Generator, Value, View, ops};

pub(crate) const ACTIVATIONS: [Activation; 12] = {
    use Activation::*;
    [
        None,
        Relu,
        Gelu,
        GeluTanh,
        Silu,
        Sigmoid,
        Tanh,
        LeakyRelu { slope: 0.1 },
        LeakyRelu { slope: 2.0 },
        HardSwish,
        ScaledHardSwish { scale: 1.5, shift: -0.25 },
        Clip { min: -0.75, max: 1.25 },
    ]
};

/// The shapes of both sides of one product.
type Shapes<'a> = (&'a [usize], &'a [usize]);

const BATCHED: &[Shapes<'static>] = &[
    (&[3, 4, 6], &[3, 6, 5]),
    (&[3, 4, 6], &[6, 5]),
    (&[4, 6], &[3, 6, 5]),
    (&[2, 1, 4, 6], &[3, 6, 5]),
    (&[1, 3, 1, 6], &[2, 1, 6, 5]),
    (&[1, 2, 1, 2, 1, 2, 3, 2], &[2, 4]),
    (&[0, 4, 6], &[6, 5]),
    (&[3, 0, 6], &[6, 5]),
    (&[4, 6], &[3, 6, 0]),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let plain = product(1.0, Activation::None);
    for dtype in FLOATS {
        let mut add = |shapes: Shapes, views: [View; 3], op: &Op| {
            cases.push(case(dtype, shapes, views, op, (-1.0, 1.0)));
        };
        let dense = [View::Dense; 3];
        let sizes = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33];
        for (at, &m) in sizes.iter().enumerate() {
            for (next, &n) in sizes.iter().enumerate() {
                // One k for each pair, so that all sizes meet without a cube of cases.
                let k = sizes[(3 * at + 5 * next) % sizes.len()];
                add((&[m, k], &[k, n]), dense, &plain);
            }
        }
        for (m, n, k) in [
            (1, 1, 0),
            (3, 5, 0),
            (1, 64, 64),
            (64, 1, 64),
            (64, 64, 1),
            (1, 1, 1000),
            (4, 8, 513),
            (65, 67, 63),
        ] {
            add((&[m, k], &[k, n]), dense, &plain);
        }
        for a in [View::Dense, View::Transposed, View::Stepped, View::Repeated] {
            for b in [View::Shifted, View::Transposed, View::Mixed, View::Repeated] {
                for output in [View::Dense, View::Transposed, View::Stepped] {
                    add((&[17, 19], &[19, 13]), [output, a, b], &plain);
                    add((&[2, 5, 7], &[7, 6]), [output, a, b], &plain);
                }
            }
        }
        for &shapes in BATCHED {
            add(shapes, dense, &plain);
            add(shapes, [View::Mixed, View::Transposed, View::Stepped], &plain);
        }
        // Few rows or columns, with weights as linear layers have them.
        for (m, n, k) in [(1, 40, 64), (2, 33, 64), (4, 19, 1104), (1, 35, 1104), (37, 3, 64)] {
            for b in [View::Dense, View::Transposed] {
                add((&[m, k], &[k, n]), [View::Dense, View::Dense, b], &plain);
                add((&[3, m, k], &[3, k, n]), [View::Dense, View::Dense, b], &plain);
            }
        }
        cases.push(repeated(dtype, dense));
        cases.push(repeated(dtype, [View::Mixed, View::Transposed, View::Stepped]));
        cases.extend(layers(dtype));
        cases.extend(epilogues(dtype));
        cases.extend(single_rows(dtype));
        cases.push(specials(dtype));
    }
    for (m, n, k) in [(129, 257, 65), (1, 1031, 511), (301, 7, 401), (64, 64, 2048)] {
        let shapes: Shapes = (&[m, k], &[k, n]);
        cases.push(case(DType::F32, shapes, [View::Dense; 3], &plain, (-1.0, 1.0)));
        let transposed = [View::Dense, View::Dense, View::Transposed];
        cases.push(case(DType::BF16, shapes, transposed, &plain, (-1.0, 1.0)));
    }
    cases.extend(whole());
    cases
}

fn product(scale: f32, activation: Activation) -> Op {
    ops::matmul(scale, false, false, activation)
}

fn case(
    dtype: DType,
    (a, b): Shapes,
    [output_view, a_view, b_view]: [View; 3],
    op: &Op,
    (low, high): (f64, f64),
) -> Case {
    let name = format!("matmul/{dtype}/{a:?}x{b:?}-{output_view:?}-{a_view:?}-{b_view:?}");
    let mut generator = Generator::named(&name);
    let mut values = |shape: &[usize]| generator.elements(dtype, shape.iter().product(), low, high);
    CaseBuilder::new(name, op.clone())
        .input(a_view.layout(dtype, a), &values(a))
        .input(b_view.layout(dtype, b), &values(b))
        .outputs(&[output_view])
        .build()
}

/// An output with more leading axes than both sides, which repeat over them.
fn repeated(dtype: DType, views: [View; 3]) -> Case {
    let name = format!("matmul/{dtype}/repeated-{views:?}");
    let mut generator = Generator::named(&name);
    let mut values = |count| generator.elements(dtype, count, -1.0, 1.0);
    CaseBuilder::new(name, product(1.0, Activation::None))
        .output(views[0].layout(dtype, &[3, 4, 5]))
        .input(views[1].layout(dtype, &[4, 6]), &values(24))
        .input(views[2].layout(dtype, &[6, 5]), &values(30))
        .build()
}

/// Every activation with every combination of scale, bias and residual, in the shapes they come in.
fn epilogues(dtype: DType) -> Vec<Case> {
    let bias_shapes: [Option<&[usize]>; 5] =
        [None, Some(&[11]), Some(&[9, 1]), Some(&[]), Some(&[2, 9, 11])];
    let residuals = [None, Some(View::Dense), Some(View::Transposed)];
    let mut cases = Vec::new();
    for activation in ACTIVATIONS {
        for scale in [1.0, -0.125, 0.0] {
            for bias in bias_shapes {
                for residual in residuals {
                    let op = ops::matmul(scale, bias.is_some(), residual.is_some(), activation);
                    let name = format!(
                        "matmul/{dtype}/epilogue-{activation:?}-{scale}-{bias:?}-{residual:?}"
                    );
                    let mut generator = Generator::named(&name);
                    let mut values = |count| generator.elements(dtype, count, -2.0, 2.0);
                    let mut case = CaseBuilder::new(name, op)
                        .input(View::Dense.layout(dtype, &[2, 9, 3]), &values(54))
                        .input(View::Dense.layout(dtype, &[3, 11]), &values(33));
                    if let Some(shape) = bias {
                        let layout = View::Shifted.layout(dtype, shape);
                        case = case.input(layout, &values(layout.elements()));
                    }
                    if let Some(view) = residual {
                        case = case.input(view.layout(dtype, &[2, 9, 11]), &values(198));
                    }
                    cases.push(case.outputs(&[View::Shifted]).build());
                }
            }
        }
    }
    cases
}

/// Linear layers, with weights as they are kept: both sides are contiguous along k.
fn layers(dtype: DType) -> Vec<Case> {
    let mut cases = Vec::new();
    for (m, n, k) in [
        (5, 40, 64),
        (8, 8, 16),
        (9, 23, 20),
        (16, 24, 132),
        (33, 17, 36),
        (40, 70, 256),
        (65, 130, 68),
        (12, 33, 1104),
        (64, 32, 512),
        (130, 70, 40),
        (16, 64, 4096),
        (136, 131, 257),
        (72, 136, 264),
    ] {
        for (batch, bias, residual, activation) in [
            (1, None, false, Activation::None),
            (1, Some(&[n][..]), false, Activation::Relu),
            (1, Some(&[m, n][..]), true, Activation::Gelu),
            (2, Some(&[n][..]), true, Activation::Clip { min: -0.75, max: 1.25 }),
        ] {
            let scale = if residual { 0.5 } else { 1.0 };
            let op = ops::matmul(scale, bias.is_some(), residual, activation);
            let name = format!("matmul/{dtype}/layer-{batch}x{m}x{n}x{k}-{bias:?}-{activation:?}");
            let mut generator = Generator::named(&name);
            let mut values = |count| generator.elements(dtype, count, -1.0, 1.0);
            // Of two, each has weights of its own.
            let shape = |rows: usize, columns: usize| match batch {
                1 => vec![rows, columns],
                _ => vec![batch, rows, columns],
            };
            let mut case = CaseBuilder::new(name, op)
                .input(View::Dense.layout(dtype, &shape(m, k)), &values(batch * m * k))
                .input(View::Transposed.layout(dtype, &shape(k, n)), &values(batch * k * n));
            if let Some(shape) = bias {
                let layout = View::Dense.layout(dtype, shape);
                case = case.input(layout, &values(layout.elements()));
            }
            if residual {
                case = case.input(View::Dense.layout(dtype, &shape(m, n)), &values(batch * m * n));
            }
            cases.push(case.outputs(&[View::Dense]).build());
        }
    }
    cases
}

/// Layers at batch 1.
fn single_rows(dtype: DType) -> Vec<Case> {
    let mut cases = Vec::new();
    for activation in ACTIVATIONS {
        for view in [View::Dense, View::Transposed] {
            let op = ops::matmul(0.5, true, true, activation);
            let name = format!("matmul/{dtype}/row-{activation:?}-{view:?}");
            let mut generator = Generator::named(&name);
            let mut values = |count| generator.elements(dtype, count, -1.0, 1.0);
            let case = CaseBuilder::new(name, op)
                .input(View::Dense.layout(dtype, &[1, 136]), &values(136))
                .input(view.layout(dtype, &[136, 20]), &values(136 * 20))
                .input(View::Dense.layout(dtype, &[20]), &values(20))
                .input(View::Shifted.layout(dtype, &[1, 20]), &values(20));
            cases.push(case.outputs(&[View::Dense]).build());
        }
    }
    cases
}

/// Rows and columns with NaN and infinities, which have to reach exactly the elements they touch.
fn specials(dtype: DType) -> Case {
    let mut generator = Generator::new(17);
    let mut a = generator.elements(dtype, 6 * 5, 0.5, 1.5);
    let mut b = generator.elements(dtype, 5 * 7, 0.5, 1.5);
    a[5 + 2] = Value::Float(f64::NAN);
    a[2 * 5] = Value::Float(f64::INFINITY);
    a[3 * 5 + 4] = Value::Float(f64::NEG_INFINITY);
    b[3 * 7 + 6] = Value::Float(f64::INFINITY);
    b[4 * 7 + 5] = Value::Float(0.0);
    CaseBuilder::new(format!("matmul/{dtype}/special"), product(1.0, Activation::None))
        .input(View::Dense.layout(dtype, &[6, 5]), &a)
        .input(View::Dense.layout(dtype, &[5, 7]), &b)
        .outputs(&[View::Dense])
        .build()
}

/// Integers of 32 and 64 bits.
fn whole() -> Vec<Case> {
    let plain = product(1.0, Activation::None);
    let mut cases = Vec::new();
    for dtype in [DType::I32, DType::I64, DType::U32, DType::U64] {
        for (m, n, k) in [(1, 1, 1), (3, 5, 0), (2, 40, 33), (40, 1, 33), (65, 67, 63), (4, 8, 513)]
        {
            cases.push(case(dtype, (&[m, k], &[k, n]), [View::Dense; 3], &plain, (0.0, 1.0)));
        }
        for &shapes in BATCHED {
            let views = [View::Mixed, View::Transposed, View::Stepped];
            cases.push(case(dtype, shapes, views, &plain, (0.0, 1.0)));
        }
        let name = format!("matmul/{dtype}/added");
        let mut generator = Generator::named(&name);
        let mut values = |count| generator.elements(dtype, count, 0.0, 1.0);
        let case = CaseBuilder::new(name, ops::matmul(1.0, true, true, Activation::None))
            .input(View::Dense.layout(dtype, &[2, 9, 7]), &values(126))
            .input(View::Transposed.layout(dtype, &[7, 6]), &values(42))
            .input(View::Dense.layout(dtype, &[6]), &values(6))
            .input(View::Shifted.layout(dtype, &[9, 6]), &values(54));
        cases.push(case.outputs(&[View::Dense]).build());
    }
    cases
}
