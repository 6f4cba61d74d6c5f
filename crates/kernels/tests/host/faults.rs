//! Indices outside their axis leave a note and touch nothing else.

use millstream_conformance::{Case, CaseBuilder, Target, Value, View, ops};
use millstream_core::{DType, Op, OpKind, RoiAlignParams, RoiMode, ScatterReduction};

use crate::host;
use crate::keys::chosen_kinds;

fn expect_fault(kind: OpKind, case: Case) {
    let Some(host) = host().filter(|_| chosen_kinds().contains(&kind)) else { return };
    let error = host.run(&case).expect_err("the index is outside");
    assert_eq!(error, "an index lies outside its axis (command 5)", "{}", case.name);
}

#[test]
fn reading_outside_an_axis_is_a_fault() {
    for index in [3, -4, i64::MAX, i64::MIN] {
        let case = CaseBuilder::new(format!("gather of {index}"), Op::Gather { axis: 0 })
            .input(View::Dense.layout(DType::F32, &[3, 4]), &[Value::Float(1.0); 12])
            .input(
                View::Dense.layout(DType::I64, &[2]),
                &[Value::Int(1), Value::Int(index.into())],
            );
        expect_fault(OpKind::Gather, case.outputs(&[View::Dense]).build());
    }
    let case = CaseBuilder::new("gather of nothing", Op::Gather { axis: 0 })
        .input(View::Dense.layout(DType::F32, &[0, 4]), &[])
        .input(View::Dense.layout(DType::I32, &[1]), &[Value::Int(0)]);
    expect_fault(OpKind::Gather, case.outputs(&[View::Dense]).build());
}

#[test]
fn a_length_beyond_its_axis_is_a_fault() {
    for length in [4, -1, i64::MAX, i64::MIN] {
        let case = CaseBuilder::new(format!("reverse {length}"), ops::reverse(&[0], Some(1)))
            .input(View::Dense.layout(DType::F32, &[3, 2]), &[Value::Float(1.0); 6])
            .input(
                View::Dense.layout(DType::I64, &[2]),
                &[Value::Int(3), Value::Int(length.into())],
            );
        expect_fault(OpKind::Reverse, case.outputs(&[View::Dense]).build());
    }
}

#[test]
fn a_region_outside_the_batch_is_a_fault() {
    let (mode, half_pixel) = (RoiMode::Max, true);
    let params = RoiAlignParams { size: [2, 2], samples: 0, scale: 1.0, mode, half_pixel };
    for (batches, index) in [(2, 2), (2, -1), (2, i64::MAX), (2, i64::MIN), (0, 0)] {
        let case = CaseBuilder::new(format!("region in {index}"), Op::RoiAlign { params })
            .input(
                View::Dense.layout(DType::F32, &[batches, 1, 3, 3]),
                &vec![Value::Float(1.0); batches * 9],
            )
            .input(View::Dense.layout(DType::F32, &[1, 4]), &[Value::Float(1.0); 4])
            .input(View::Dense.layout(DType::I64, &[1]), &[Value::Int(index.into())]);
        expect_fault(OpKind::RoiAlign, case.outputs(&[View::Dense]).build());
    }
}

#[test]
fn writing_outside_an_axis_is_a_fault() {
    for index in [3, -4, i64::MAX, i64::MIN] {
        let op = Op::ScatterNd { reduction: ScatterReduction::Replace };
        let case = CaseBuilder::new(format!("scatter to {index}"), op)
            .input(View::Dense.layout(DType::F32, &[3, 4]), &[Value::Float(1.0); 12])
            .input(View::Dense.layout(DType::I64, &[1, 1]), &[Value::Int(index.into())])
            .input(View::Dense.layout(DType::F32, &[1, 4]), &[Value::Float(2.0); 4]);
        expect_fault(OpKind::ScatterNd, case.outputs(&[View::Dense]).build());
    }
    let op = Op::ScatterElements { axis: 0, reduction: ScatterReduction::Add };
    let case = CaseBuilder::new("scatter to nothing", op)
        .input(View::Dense.layout(DType::F32, &[0, 4]), &[])
        .input(View::Dense.layout(DType::I32, &[1, 4]), &[Value::Int(0); 4])
        .input(View::Dense.layout(DType::F32, &[1, 4]), &[Value::Float(2.0); 4]);
    expect_fault(OpKind::ScatterElements, case.outputs(&[View::Dense]).build());
}
