//! What only the data knows the size of.

use millstream_core::{DType, Op};

use crate::generator::special_values;
use crate::{Case, CaseBuilder, Generator, Value, View};

const SHAPES: &[&[usize]] =
    &[&[], &[1], &[67], &[5, 33], &[3, 4, 5], &[2, 1, 2, 3, 1, 2, 1, 2], &[3, 0, 2], &[0]];

/// Few different numbers, many of them zero.
fn few(generator: &mut Generator, dtype: DType, count: usize) -> Vec<Value> {
    let one = |_| {
        let number = generator.below(4) as i128;
        match dtype {
            DType::Bool => Value::Int(number % 2),
            _ if dtype.is_float() => Value::Float([0.0, -0.0, 1.5, -2.0][number as usize]),
            _ => Value::Int(number),
        }
    };
    (0..count).map(one).collect()
}

pub(super) fn nonzeros() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add =
        |name: String, dtype: DType, shape: &[usize], views: [View; 3], values: &[Value]| {
            let case = CaseBuilder::new(format!("nonzero/{dtype}/{name}"), Op::NonZero);
            let case = case.input(views[2].layout(dtype, shape), values);
            cases.push(case.outputs(&views[..2]).build());
        };
    for dtype in DType::COMPUTED {
        for &shape in SHAPES {
            for (at, views) in [
                [View::Dense, View::Dense, View::Dense],
                [View::Mixed, View::Shifted, View::Transposed],
            ]
            .into_iter()
            .enumerate()
            {
                let mut generator = Generator::named(&format!("nonzero/{dtype}/{shape:?}-{at}"));
                let values = few(&mut generator, dtype, shape.iter().product());
                add(format!("{shape:?}-{at}"), dtype, shape, views, &values);
            }
        }
        let special = special_values(dtype);
        add("special".into(), dtype, &[special.len()], [View::Dense; 3], &special);
    }
    for (name, shape) in [("large", &[317, 331][..]), ("long", &[131_077])] {
        let values = few(&mut Generator::named(name), DType::F32, shape.iter().product());
        add(name.into(), DType::F32, shape, [View::Dense; 3], &values);
        let zeros = vec![Value::Float(0.0); values.len()];
        add(format!("{name}-of-zeros"), DType::F32, shape, [View::Dense; 3], &zeros);
    }
    cases
}

/// Shapes, the axis, and how many conditions there are.
const COMPRESSED: &[(&[usize], Option<u8>, usize)] = &[
    (&[67], Some(0), 67),
    (&[5, 33], Some(1), 20),
    (&[33, 8], Some(0), 33),
    (&[3, 4, 5], Some(1), 4),
    (&[3, 4, 5], None, 60),
    (&[3, 4, 5], None, 7),
    (&[2, 1, 2, 3, 1, 2, 1, 2], Some(3), 3),
    (&[3, 0, 2], Some(0), 3),
    (&[3, 4], Some(1), 0),
    (&[], None, 1),
];

pub(super) fn compressions() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |dtype: DType, shape: &[usize], axis: Option<u8>, count, views: [View; 4]| {
        let name = format!("compress/{dtype}/{shape:?}-{axis:?}-{count}-{:?}", views[0]);
        let mut generator = Generator::named(&name);
        let values = generator.elements(dtype, shape.iter().product(), -9.0, 9.0);
        let conditions = few(&mut generator, DType::Bool, count);
        let case = CaseBuilder::new(name, Op::Compress { axis })
            .input(views[2].layout(dtype, shape), &values)
            .input(views[3].layout(DType::Bool, &[count]), &conditions);
        cases.push(case.outputs(&views[..2]).build());
    };
    for dtype in DType::COMPUTED {
        for &(shape, axis, count) in COMPRESSED {
            add(dtype, shape, axis, count, [View::Dense; 4]);
            let views = [View::Mixed, View::Shifted, View::Transposed, View::Stepped];
            add(dtype, shape, axis, count, views);
        }
    }
    add(DType::F32, &[4001, 24], Some(0), 4001, [View::Dense; 4]);
    add(DType::F32, &[317, 331], None, 100_003, [View::Dense; 4]);
    cases
}

const DIFFERENT: &[(&[usize], Option<u8>)] = &[
    (&[1], None),
    (&[67], None),
    (&[5, 33], None),
    (&[33, 2], Some(0)),
    (&[2, 33], Some(1)),
    (&[3, 9, 1], Some(1)),
    (&[9, 0], Some(0)),
    (&[0, 3], Some(0)),
    (&[2, 1, 2, 3, 1, 2, 1, 2], Some(3)),
    (&[], None),
];

pub(super) fn uniques() -> Vec<Case> {
    let mut cases = Vec::new();
    let dense = [View::Dense; 6];
    let mixed =
        [View::Mixed, View::Stepped, View::Shifted, View::Stepped, View::Shifted, View::Transposed];
    let mut add = |dtype, shape: &[usize], op: &Op, views: [View; 6], values: Option<&[Value]>| {
        let name = format!("unique/{dtype}/{shape:?}-{op:?}-{:?}-{}", views[0], values.is_some());
        let mut generator = Generator::named(&name);
        let drawn = few(&mut generator, dtype, shape.iter().product());
        let case = CaseBuilder::new(name, op.clone())
            .input(views[5].layout(dtype, shape), values.unwrap_or(&drawn));
        cases.push(case.outputs(&views[..5]).build());
    };
    for dtype in DType::COMPUTED {
        for sorted in [true, false] {
            for &(shape, axis) in DIFFERENT {
                add(dtype, shape, &Op::Unique { axis, sorted }, dense, None);
                add(dtype, shape, &Op::Unique { axis, sorted }, mixed, None);
            }
            let special = [special_values(dtype), special_values(dtype)].concat();
            let op = Op::Unique { axis: None, sorted };
            add(dtype, &[special.len()], &op, dense, Some(&special));
        }
    }
    // More than a group of threads sorts at once.
    for sorted in [true, false] {
        let values: Vec<Value> =
            (0..5000).map(|i| Value::Float(f64::from(i * 7919 % 613))).collect();
        let op = |axis| Op::Unique { axis, sorted };
        add(DType::F32, &[5000], &op(None), dense, Some(&values));
        add(DType::F16, &[1250, 4], &op(Some(0)), mixed, Some(&values));
    }
    cases
}
