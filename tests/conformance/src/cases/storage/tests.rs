//! What no operation computes with is refused by all that would, with the operand's name.

use millstream_core::{BinaryOp, Error, Layout, UnaryOp};

use super::*;
use crate::ops;

#[test]
fn operations_that_compute_refuse_them() {
    for dtype in TYPES {
        let layout = Layout::contiguous(dtype, &[4]).unwrap();
        let other = Layout::contiguous(DType::I64, &[4]).unwrap();
        for (op, inputs) in [
            (Op::Unary { op: UnaryOp::Abs }, vec![&layout]),
            (Op::Binary { op: BinaryOp::Equal }, vec![&layout, &layout]),
            (Op::Gather { axis: 0 }, vec![&layout, &other]),
            (Op::Copy { dtype: DType::F64, saturate: true }, vec![&layout]),
            (Op::Copy { dtype: DType::Bool, saturate: true }, vec![&layout]),
            (
                Op::Copy { dtype, saturate: true },
                vec![&Layout::contiguous(DType::F64, &[4]).unwrap()],
            ),
        ] {
            let error = op.infer(&inputs).unwrap_err();
            assert!(matches!(error, Error::Mismatch { .. }), "{op:?} of {dtype}: {error}");
        }
        assert!(ops::fill(1, dtype, &[4]).infer(&[]).is_err());
    }
}
