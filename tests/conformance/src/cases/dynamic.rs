//! Quantization with the scale that suits the data.

use millstream_core::{DType, DynamicRange, Op};

use crate::{Case, CaseBuilder, Generator, Value, View};

const SHAPES: &[&[usize]] = &[
    &[1],
    &[7],
    &[0],
    &[3, 67],
    &[2, 0],
    &[0, 3],
    &[2, 3, 4, 5],
    &[5, 600],
    &[70, 16],
    &[3, 20_000],
];

/// Those of the integers, of scales and zero points, and of the source.
const VIEWS: [[View; 3]; 3] = [
    [View::Dense, View::Dense, View::Dense],
    [View::Mixed, View::Stepped, View::Transposed],
    [View::Shifted, View::Shifted, View::Stepped],
];

fn case(
    name: String,
    op: Op,
    views: [View; 3],
    from: DType,
    shape: &[usize],
    values: &[Value],
) -> Case {
    let outputs = [views[0], views[1], views[1]];
    let count = op.output_names().len();
    CaseBuilder::new(name, op)
        .input(views[2].layout(from, shape), values)
        .outputs(&outputs[..count])
        .build()
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for from in [DType::F32, DType::F16, DType::BF16] {
        all.extend(parts(from));
        for (dtype, range) in [
            (DType::U8, DynamicRange::Tensor),
            (DType::U8, DynamicRange::Rows),
            (DType::I8, DynamicRange::Tensor),
            (DType::I8, DynamicRange::Rows),
        ] {
            let op = Op::DynamicQuantize { range, dtype };
            let name = |what: String| format!("dynamic_quantize/{from}-{dtype}-{range:?}/{what}");
            for (at, &shape) in SHAPES.iter().enumerate() {
                for views in VIEWS {
                    let size = shape.iter().product::<usize>();
                    if size > 5000 && views != VIEWS[0] && (from != DType::F32 || views == VIEWS[2])
                    {
                        continue;
                    }
                    let name = name(format!("{shape:?}-{views:?}"));
                    // On both sides of zero, and on one of them only.
                    let (low, high) = [(-3.0, 9.0), (2.0, 5.0), (-7.0, -1.0)][at % 3];
                    let values = Generator::named(&name).elements(from, size, low, high);
                    all.push(case(name, op.clone(), views, from, shape, &values));
                }
            }
            if range == DynamicRange::Tensor {
                all.push(case(
                    name("scalar".into()),
                    op.clone(),
                    VIEWS[0],
                    from,
                    &[],
                    &[Value::Float(2.5)],
                ));
            }
            let rows = [
                [0.0, -0.0, 0.0, 0.0],
                [f64::NAN, 1.0, -2.0, 0.5],
                [f64::NAN, f64::NAN, f64::NAN, f64::NAN],
                [f64::INFINITY, 1.0, -1.0, 0.0],
                [1.0, f64::NEG_INFINITY, 2.0, f64::INFINITY],
                [1.0, -1.0, 0.5, -0.5],
            ];
            for (at, row) in rows.iter().enumerate() {
                let values = row.map(Value::Float);
                let name = name(format!("special-{at}"));
                all.push(case(name, op.clone(), VIEWS[0], from, &[4], &values));
            }
            let values: Vec<_> = rows.concat().into_iter().map(Value::Float).collect();
            all.push(case(name("special".into()), op, VIEWS[0], from, &[6, 4], &values));
        }
    }
    all
}

/// Shapes, with an axis and how many parts it has.
const PARTS: &[(&[usize], u8, u32)] = &[
    (&[6], 0, 3),
    (&[5], 0, 5),
    (&[4, 67], 0, 2),
    (&[3, 8, 5], 1, 4),
    (&[2, 3, 20], 2, 10),
    (&[12, 0], 0, 3),
    (&[3, 0], 1, 2),
    (&[1, 7], 0, 1),
    (&[3, 20_000], 0, 3),
    (&[40, 600], 0, 20),
];

fn parts(from: DType) -> Vec<Case> {
    let mut all = Vec::new();
    for dtype in [DType::U8, DType::I8] {
        for &(shape, axis, parts) in PARTS {
            let op = Op::DynamicQuantize { range: DynamicRange::Parts { axis, parts }, dtype };
            let size = shape.iter().product::<usize>();
            for views in VIEWS {
                if size > 5000 && views != VIEWS[0] && from != DType::F32 {
                    continue;
                }
                let name = format!(
                    "dynamic_quantize/{from}-{dtype}-parts/{shape:?}-{axis}-{parts}-{views:?}"
                );
                let values = Generator::named(&name).elements(from, size, -3.0, 9.0);
                all.push(case(name, op.clone(), views, from, shape, &values));
            }
        }
    }
    all
}
