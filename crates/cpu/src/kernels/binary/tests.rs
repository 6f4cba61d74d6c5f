use millstream_core::{BinaryOp, Command, DType, Element, Layout};

use crate::kernels::shared::testing::{
    FLOATS, Tensor, assert_close, assert_same_bits_in_any_order, noise, run, tolerance,
};
use BinaryOp::*;

fn ints<T: Element>(op: BinaryOp, a: &[T], b: &[T]) -> Vec<T> {
    let (a, b) = (Tensor::new(&[a.len()], a), Tensor::new(&[b.len()], b));
    let dst = Tensor::output(T::DTYPE, a.layout.shape());
    run(Command::binary(op, dst.operand(), a.operand(), b.operand()));
    dst.values()
}

fn floats(op: BinaryOp, dtype: DType, a: &[f64], b: &[f64]) -> Vec<f64> {
    let (a, b) = (Tensor::floats(dtype, &[a.len()], a), Tensor::floats(dtype, &[b.len()], b));
    let dst = Tensor::output(dtype, a.layout.shape());
    run(Command::binary(op, dst.operand(), a.operand(), b.operand()));
    dst.to_f64()
}

fn compared(op: BinaryOp, a: &Tensor, b: &Tensor) -> Vec<u8> {
    let dst = Tensor::output(DType::Bool, a.layout.shape());
    run(Command::binary(op, dst.operand(), a.operand(), b.operand()));
    dst.values()
}

#[test]
fn float_arithmetic_follows_its_definition_in_every_type() {
    let (a, b) = ([7.5, -7.5, 7.5, -7.5, 0.0], [2.0, 2.0, -2.0, -2.0, 3.0]);
    for dtype in FLOATS {
        let close = |op, expected: [f64; 5]| {
            assert_close(&floats(op, dtype, &a, &b), &expected, tolerance(dtype));
        };
        close(Add, [9.5, -5.5, 5.5, -9.5, 3.0]);
        close(Sub, [5.5, -9.5, 9.5, -5.5, -3.0]);
        close(Mul, [15.0, -15.0, -15.0, 15.0, 0.0]);
        close(Div, [3.75, -3.75, -3.75, 3.75, 0.0]);
        close(Pow, [56.25, 56.25, 1.0 / 56.25, 1.0 / 56.25, 0.0]);
        close(Min, [2.0, -7.5, -2.0, -7.5, 0.0]);
        close(Max, [7.5, 2.0, 7.5, -2.0, 3.0]);
        close(Mod, [1.5, 0.5, -0.5, -1.5, 0.0]);
        close(Fmod, [1.5, -1.5, 1.5, -1.5, 0.0]);
        close(Atan2, std::array::from_fn(|i| a[i].atan2(b[i])));
        close(Prelu, [7.5, -15.0, 7.5, 15.0, 0.0]);
    }
}

#[test]
fn extremes_propagate_nan_from_either_side() {
    for op in [Min, Max] {
        let found = floats(op, DType::F32, &[f64::NAN, 1.0], &[1.0, f64::NAN]);
        assert!(found.iter().all(|x| x.is_nan()), "{op:?}");
    }
}

#[test]
fn integers_wrap_and_never_trap() {
    assert_eq!(ints(Add, &[i8::MAX, 1], &[1, 2]), [i8::MIN, 3]);
    assert_eq!(ints(Sub, &[0u8], &[1]), [255]);
    assert_eq!(ints(Mul, &[i64::MAX], &[2]), [-2]);
    assert_eq!(ints(Div, &[i64::MIN, 7, -7, 5], &[-1, 2, 2, 0]), [i64::MIN, 3, -3, 0]);
    assert_eq!(ints(Div, &[200u8, 9], &[7, 0]), [28, 0]);
    assert_eq!(
        ints(Mod, &[7, -7, 7, -7, 5, i32::MIN], &[3, 3, -3, -3, 0, -1]),
        [1, 2, -2, -1, 0, 0]
    );
    assert_eq!(
        ints(Fmod, &[7, -7, 7, -7, 5, i32::MIN], &[3, 3, -3, -3, 0, -1]),
        [1, -1, 1, -1, 0, 0]
    );
    assert_eq!(ints(Mod, &[200u8, 5], &[7, 0]), [4, 0]);
    assert_eq!(ints(Min, &[-1i32, 4], &[3, 2]), [-1, 2]);
    assert_eq!(ints(Max, &[200u8, 4], &[3, 255]), [200, 255]);
    assert_eq!(ints(Prelu, &[-3i32, 5, 0], &[4, 4, 4]), [-12, 5, 0]);
}

#[test]
fn integer_powers_have_a_value_for_every_exponent() {
    assert_eq!(ints(Pow, &[2i64, 3, -2, 0, 10], &[10, 4, 3, 0, 0]), [1024, 81, -8, 1, 1]);
    assert_eq!(
        ints(Pow, &[1i32, -1, -1, 2, 0, -5], &[-3, -3, -4, -1, -1, -2]),
        [1, -1, 1, 0, 0, 0]
    );
    assert_eq!(ints(Pow, &[i64::MIN, 1, -1], &[i64::MIN; 3]), [0, 1, 1]);
    assert_eq!(ints(Pow, &[2u8, 3, 255], &[8, 5, 255]), [0, 243, 255]);
    assert_eq!(
        ints(Pow, &[3i64], &[i64::MAX]),
        [{
            // 3 has order 2⁶² modulo 2⁶⁴, so 3^(2⁶³-1) is its inverse.
            6_148_914_691_236_517_206i64.wrapping_mul(2).wrapping_sub(1)
        }]
    );
}

#[test]
fn comparisons_of_nan_are_false_but_for_not_equal() {
    for dtype in FLOATS {
        let a = Tensor::floats(dtype, &[4], &[1.0, 2.0, 2.0, f64::NAN]);
        let b = Tensor::floats(dtype, &[4], &[2.0, 2.0, 1.0, f64::NAN]);
        assert_eq!(compared(Equal, &a, &b), [0, 1, 0, 0]);
        assert_eq!(compared(NotEqual, &a, &b), [1, 0, 1, 1]);
        assert_eq!(compared(Less, &a, &b), [1, 0, 0, 0]);
        assert_eq!(compared(LessEqual, &a, &b), [1, 1, 0, 0]);
        assert_eq!(compared(Greater, &a, &b), [0, 0, 1, 0]);
        assert_eq!(compared(GreaterEqual, &a, &b), [0, 1, 1, 0]);
    }
    let (a, b) = (Tensor::new(&[2], &[i64::MAX, -1]), Tensor::new(&[2], &[i64::MAX - 1, 0]));
    assert_eq!(compared(Greater, &a, &b), [1, 0]);
    assert_eq!(compared(Less, &a, &b), [0, 1]);
}

#[test]
fn logic_works_on_truth_values_and_bits() {
    let (a, b) = (Tensor::bools(&[4], &[0, 0, 1, 1]), Tensor::bools(&[4], &[0, 1, 0, 1]));
    assert_eq!(compared(And, &a, &b), [0, 0, 0, 1]);
    assert_eq!(compared(Or, &a, &b), [0, 1, 1, 1]);
    assert_eq!(compared(Xor, &a, &b), [0, 1, 1, 0]);
    assert_eq!(compared(Equal, &a, &b), [1, 0, 0, 1]);
    assert_eq!(compared(NotEqual, &a, &b), [0, 1, 1, 0]);
    assert_eq!(ints(And, &[0b1100i32], &[0b1010]), [0b1000]);
    assert_eq!(ints(Or, &[0b1100i64], &[0b1010]), [0b1110]);
    assert_eq!(ints(Xor, &[0b1100u8], &[0b1010]), [0b0110]);
}

#[test]
fn shifts_by_the_width_or_more_give_zero() {
    assert_eq!(ints(ShiftLeft, &[1u8, 1, 1], &[7, 8, 255]), [128, 0, 0]);
    assert_eq!(ints(ShiftRight, &[-8i8, -8, -8, 64], &[1, 8, -1, 3]), [-4, -1, -1, 8]);
    assert_eq!(ints(ShiftLeft, &[1i64, 1, 1], &[62, 64, i64::MAX]), [1 << 62, 0, 0]);
    assert_eq!(ints(ShiftRight, &[i32::MIN, 9], &[31, 32]), [-1, 0]);
}

#[test]
fn inputs_broadcast_in_every_direction() {
    let a = Tensor::new(&[2, 1, 3], &[1i32, 2, 3, 4, 5, 6]);
    let b = Tensor::new(&[2, 1], &[10i32, 20]);
    let dst = Tensor::output(DType::I32, &[2, 2, 3]);
    run(Command::binary(Add, dst.operand(), a.operand(), b.operand()));
    assert_eq!(dst.values::<i32>(), [11, 12, 13, 21, 22, 23, 14, 15, 16, 24, 25, 26]);
    let scalar = Tensor::strided(Layout::scalar(DType::I32), &[100i32]);
    run(Command::binary(Sub, dst.operand(), scalar.operand(), dst.operand()));
    assert_eq!(dst.values::<i32>()[..4], [89, 88, 87, 79]);
}

#[test]
fn layouts_do_not_matter_and_a_result_may_replace_either_argument() {
    let (x, y) = (noise(9 * 260, 3), noise(9 * 260, 4));
    let shape = [9, 260];
    for dtype in FLOATS {
        let dense = Layout::contiguous(dtype, &shape).unwrap();
        let transposed = Layout::contiguous(dtype, &[260, 9]).unwrap().transpose(0, 1).unwrap();
        let gaps = Layout::strided(dtype, &shape, &[2, 20], 1).unwrap();
        let (a, b) = (Tensor::floats_strided(dense, &x), Tensor::floats_strided(dense, &y));
        let expected = Tensor::uninit(dense);
        run(Command::binary(Div, expected.operand(), a.operand(), b.operand()));
        let rounded = (a.to_f64(), b.to_f64());
        let quotients: Vec<_> = rounded.0.iter().zip(&rounded.1).map(|(a, b)| a / b).collect();
        assert_close(&expected.to_f64(), &quotients, tolerance(dtype));
        for first in [dense, transposed, gaps] {
            for second in [dense, transposed, gaps] {
                let a = Tensor::floats_strided(first, &x);
                let b = Tensor::floats_strided(second, &y);
                let dst = Tensor::uninit(transposed);
                run(Command::binary(Div, dst.operand(), a.operand(), b.operand()));
                assert_eq!(dst.to_f64(), expected.to_f64());
                run(Command::binary(Div, a.operand(), a.operand(), b.operand()));
                assert_eq!(a.to_f64(), expected.to_f64());
                let a = Tensor::floats_strided(first, &x);
                run(Command::binary(Div, b.operand(), a.operand(), b.operand()));
                assert_eq!(b.to_f64(), expected.to_f64());
            }
        }
    }
    let same = Tensor::new(&[3], &[1.0f32, 2.0, 3.0]);
    run(Command::binary(Mul, same.operand(), same.operand(), same.operand()));
    assert_eq!(same.values::<f32>(), [1.0, 4.0, 9.0]);
}

#[test]
fn no_elements_and_rank_8_work() {
    let empty = Tensor::output(DType::F32, &[2, 0]);
    run(Command::binary(Add, empty.operand(), empty.operand(), empty.operand()));
    let shape = [2; 8];
    let values: Vec<i64> = (0..256).collect();
    let a = Tensor::new(&shape, &values);
    let order = [7, 5, 3, 1, 6, 4, 2, 0];
    let transposed = a.layout.permute(&order).unwrap();
    let b = Tensor::strided(transposed, &values);
    let dst = Tensor::output(DType::I64, &shape);
    run(Command::binary(Sub, dst.operand(), a.operand(), b.operand()));
    assert_eq!(dst.values::<i64>(), [0; 256]);
}

#[test]
fn results_do_not_depend_on_the_order_of_chunks() {
    let a = Tensor::floats(DType::F16, &[40, 1000], &noise(40_000, 5));
    let b = Tensor::floats(DType::F16, &[1000], &noise(1000, 6));
    let dst = Tensor::output(DType::F16, &[40, 1000]);
    let command = Command::binary(Add, dst.operand(), a.operand(), b.operand()).unwrap();
    assert_same_bits_in_any_order(&command, &dst);
}
