//! Pooling.

use millstream_core::{DType, PoolKind, PoolOrder, PoolParams};

use super::{FLOATS, NUMBERS};
use crate::generator::special_values;
use crate::{Case, CaseBuilder, Generator, Value, View, ops};

/// Kernel, stride, dilation and padding before and after of one axis.
type Window = [u32; 5];

/// The input's spatial sizes, the windows, and whether one more may begin inside and end outside.
type Geometry = (&'static [usize], &'static [Window], bool);

const GEOMETRIES: &[Geometry] = &[
    (&[7], &[[2, 1, 1, 0, 0]], false),
    (&[7], &[[2, 2, 1, 0, 0]], false),
    // The same windows and one more.
    (&[7], &[[2, 2, 1, 0, 0]], true),
    (&[8], &[[3, 1, 1, 1, 1]], false),
    (&[9], &[[3, 2, 2, 1, 1]], false),
    (&[5], &[[5, 1, 1, 0, 0]], false),
    (&[300], &[[4, 1, 1, 1, 1]], false),
    (&[1], &[[3, 1, 1, 1, 1]], false),
    (&[6, 7], &[[2, 2, 1, 0, 0], [3, 2, 1, 1, 1]], false),
    (&[6, 7], &[[3, 1, 1, 1, 1], [3, 1, 1, 0, 0]], false),
    (&[6, 9], &[[6, 1, 1, 0, 0], [9, 1, 1, 0, 0]], false),
    (&[5, 6], &[[2, 2, 1, 0, 1], [2, 3, 1, 1, 1]], false),
    (&[4, 5, 6], &[[2, 2, 1, 0, 0], [3, 1, 1, 1, 1], [2, 1, 1, 0, 0]], false),
    (&[3, 4, 4], &[[2, 2, 1, 0, 0], [3, 1, 1, 0, 0], [2, 1, 1, 0, 0]], true),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in NUMBERS {
        for kind in kinds(dtype) {
            for (at, geometry) in GEOMETRIES.iter().enumerate() {
                for [values, places, input] in [
                    [View::Dense, View::Dense, View::Dense],
                    [View::Mixed, View::Transposed, View::Stepped],
                    [View::Stepped, View::Mixed, View::Transposed],
                    [View::Shifted, View::Shifted, View::Repeated],
                ] {
                    for indices in [false, true] {
                        if indices && kind != PoolKind::Max {
                            continue;
                        }
                        let params = PoolParams { indices, ..params(kind, geometry) };
                        let name = format!("pool/{dtype}/{kind:?}-{at}-{indices}-{input:?}");
                        let outer = [2, 3];
                        cases.push(case(
                            name,
                            params,
                            dtype,
                            outer,
                            geometry,
                            [values, places, input],
                        ));
                    }
                }
            }
            let empty = params(kind, &GEOMETRIES[0]);
            let views = [View::Dense; 3];
            for outer in [[0, 3], [2, 0]] {
                let name = format!("pool/{dtype}/{kind:?}-empty-{outer:?}");
                cases.push(case(name, empty, dtype, outer, &GEOMETRIES[0], views));
            }
        }
        cases.push(specials(dtype));
    }
    for order in [PoolOrder::Whole, PoolOrder::WholeByColumns] {
        for (at, geometry) in GEOMETRIES.iter().enumerate() {
            let params = PoolParams { indices: true, order, ..params(PoolKind::Max, geometry) };
            let name = format!("pool/f32/{order:?}-{at}");
            let views = [View::Dense, View::Transposed, View::Stepped];
            cases.push(case(name, params, DType::F32, [2, 3], geometry, views));
        }
    }
    let large: Geometry = (&[70, 131], &[[3, 1, 1, 1, 1], [3, 1, 1, 1, 1]], false);
    for kind in kinds(DType::F32) {
        let params = params(kind, &large);
        let name = format!("pool/f32/{kind:?}-large");
        cases.push(case(name, params, DType::F32, [1, 4], &large, [View::Dense; 3]));
    }
    cases
}

fn kinds(dtype: DType) -> Vec<PoolKind> {
    let mut kinds = vec![PoolKind::Max];
    if FLOATS.contains(&dtype) {
        kinds.extend([true, false].map(|include_padding| PoolKind::Average { include_padding }));
    }
    kinds
}

fn params(kind: PoolKind, &(_, windows, ceil): &Geometry) -> PoolParams {
    let number = |part: usize, absent: u32| {
        std::array::from_fn(|axis| windows.get(axis).map_or(absent, |window| window[part]))
    };
    PoolParams {
        kind,
        spatial: windows.len() as u8,
        kernel: number(0, 1),
        stride: number(1, 1),
        dilation: number(2, 1),
        pad_before: number(3, 0),
        pad_after: number(4, 0),
        ceil,
        indices: false,
        order: PoolOrder::Channel,
    }
}

fn case(
    name: String,
    params: PoolParams,
    dtype: DType,
    outer: [usize; 2],
    (from, ..): &Geometry,
    [values, places, input]: [View; 3],
) -> Case {
    let from = [&outer[..], from].concat();
    let count = from.iter().product();
    let mut elements = Generator::named(&name).elements(dtype, count, -4.0, 4.0);
    // Ties, for the indices.
    for value in elements.iter_mut().step_by(2).filter(|_| dtype.is_float()) {
        *value = Value::Float(value.as_f64().round());
    }
    CaseBuilder::new(name, ops::pool(params))
        .input(input.layout(dtype, &from), &elements)
        .outputs(&[values, places])
        .build()
}

/// Windows that see NaN, infinities, and nothing but the lowest number.
fn specials(dtype: DType) -> Case {
    let mut values = special_values(dtype);
    values.extend(vec![crate::limits(dtype).0; 4]);
    if dtype.is_float() {
        values.extend(vec![Value::Float(f64::NEG_INFINITY); 4]);
    }
    let count = values.len();
    let params = params(PoolKind::Max, &(&[], &[[3, 1, 1, 1, 1]], false));
    let op = ops::pool(PoolParams { indices: true, ..params });
    CaseBuilder::new(format!("pool/{dtype}/special"), op)
        .input(View::Dense.layout(dtype, &[1, 1, count]), &values)
        .outputs(&[View::Dense; 2])
        .build()
}
