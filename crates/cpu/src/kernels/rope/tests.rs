use millstream_core::{Command, DType};

use crate::kernels::shared::testing::{
    FLOATS, Tensor, assert_same_bits_in_any_order, fault, noise,
};

#[test]
fn rows_have_the_same_bits_in_any_order() {
    for dtype in FLOATS {
        let floats = |shape: &[usize], seed| {
            Tensor::floats(dtype, shape, &noise(shape.iter().product(), seed))
        };
        let (src, cos, sin) =
            (floats(&[2, 3, 9, 200], 1), floats(&[9, 70], 2), floats(&[9, 70], 3));
        let places: Vec<i32> = (0..18).map(|place| (place * 5) % 9).collect();
        let positions = Tensor::new(&[2, 9], &places);
        let dst = Tensor::output(dtype, &[2, 3, 9, 200]);
        let [a, b, c, d] = [&src, &cos, &sin, &positions].map(Tensor::operand);
        for interleaved in [false, true] {
            let command = Command::rope(dst.operand(), a, b, c, Some(d), interleaved);
            assert_same_bits_in_any_order(&command.unwrap(), &dst);
        }
    }
}

#[test]
fn a_position_without_a_row_is_a_fault() {
    for position in [-1, 3, i64::MIN, i64::MAX] {
        let row = Tensor::floats(DType::F32, &[1, 1, 2, 4], &[1.0; 8]);
        let table = Tensor::floats(DType::F32, &[3, 2], &[1.0; 6]);
        let positions = Tensor::new(&[1, 2], &[0i64, position]);
        let [row, table, at] = [&row, &table, &positions].map(Tensor::operand);
        let message = fault(Command::rope(row, row, table, table, Some(at), false));
        assert!(message.contains("outside tables of 3 rows"), "{message}");
    }
}
