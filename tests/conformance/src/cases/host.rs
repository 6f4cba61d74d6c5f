//! Transfers and the clock.

use millstream_core::{DType, Op};

use super::{LARGE, TYPES};
use crate::generator::special_values;
use crate::value::encode_all;
use crate::{Case, CaseBuilder, Generator, Value, View, ops};

const SHAPES: [&[usize]; 6] =
    [&[], &[67], &[9, 7], &[3, 4, 5], &[2, 1, 2, 3, 1, 2, 1, 2], &[3, 0, 2]];

pub(super) fn uploads() -> Vec<Case> {
    let mut cases = Vec::new();
    for (dtype, shape, view, values) in transfers() {
        let name = format!("upload/{dtype}/{shape:?}-{view:?}");
        let case = CaseBuilder::new(name, ops::upload(dtype, &shape));
        cases.push(case.host(encode_all(dtype, &values)).outputs(&[view]).build());
    }
    cases
}

pub(super) fn downloads() -> Vec<Case> {
    let mut cases = Vec::new();
    for (dtype, shape, view, values) in transfers() {
        let name = format!("download/{dtype}/{shape:?}-{view:?}");
        let layout = view.layout(dtype, &shape);
        let case = CaseBuilder::new(name, ops::download(&layout));
        cases.push(case.input(layout, &values).build());
    }
    for dtype in TYPES {
        let layout = View::Repeated.layout(dtype, &[3, 4]);
        let values = Generator::new(2).elements(dtype, 12, -9.0, 9.0);
        let name = format!("download/{dtype}/repeated");
        let case = CaseBuilder::new(name, ops::download(&layout));
        cases.push(case.input(layout, &values).build());
    }
    cases
}

fn transfers() -> Vec<(DType, Vec<usize>, View, Vec<Value>)> {
    let mut transfers = Vec::new();
    for dtype in TYPES {
        let mut generator = Generator::new(1);
        for shape in SHAPES {
            for view in View::WRITABLE {
                let values = generator.elements(dtype, shape.iter().product(), -9.0, 9.0);
                transfers.push((dtype, shape.to_vec(), view, values));
            }
        }
        let special = special_values(dtype);
        transfers.push((dtype, vec![special.len()], View::Stepped, special));
    }
    for view in [View::Dense, View::Transposed] {
        let values = Generator::new(2).elements(DType::F32, LARGE, -9.0, 9.0);
        transfers.push((DType::F32, vec![LARGE], view, values));
    }
    transfers.extend(super::storage::transfers());
    transfers
}

pub(super) fn timestamps() -> Vec<Case> {
    let shapes: [&[usize]; 3] = [&[], &[1], &[1, 1, 1]];
    let build = |shape: &[usize], view: View| {
        let layout = view.layout(DType::I64, shape);
        let case = CaseBuilder::new(format!("timestamp/{shape:?}-{view:?}"), Op::Timestamp);
        let mut case = case.output(layout).build();
        // A clock is never negative, so one that was not written shows.
        crate::case::write(&layout, &mut case.buffers[0], &[Value::Int(i64::MIN.into())]);
        case
    };
    shapes.iter().flat_map(|shape| View::WRITABLE.map(|view| build(shape, view))).collect()
}
