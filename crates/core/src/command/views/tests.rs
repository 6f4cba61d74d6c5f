use super::*;
use crate::command::tests::f32s;
use crate::{Activation, RawBuffer};

#[test]
fn operands_are_found_whatever_is_left_out() {
    let [dst, a, b] = [f32s(1, &[2, 4]), f32s(2, &[2, 3]), f32s(3, &[3, 4])];
    let (bias, residual) = (f32s(4, &[4]), f32s(5, &[2, 4]));
    let place = |operand: Option<&Operand<RawBuffer>>| operand.map(|at| at.buffer.address);
    for has_bias in [false, true] {
        for has_residual in [false, true] {
            let (bias, residual) = (has_bias.then_some(bias), has_residual.then_some(residual));
            let product =
                Command::matmul(dst, a, b, bias, residual, 1.0, Activation::None).unwrap();
            let view = MatMulOperands::of(&product);
            assert_eq!(
                [place(Some(view.dst)), place(Some(view.b))],
                [place(Some(&dst)), place(Some(&b))]
            );
            assert_eq!(place(view.bias), place(bias.as_ref()));
            assert_eq!(place(view.residual), place(residual.as_ref()));
        }
    }
}
