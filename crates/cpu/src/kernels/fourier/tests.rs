use millstream_core::{Command, DType};

use crate::kernels::shared::testing::{
    FLOATS, Tensor, assert_close, assert_same_bits_in_any_order, noise, run, tolerance,
};

#[test]
fn an_inverse_transform_undoes_a_transform() {
    for dtype in FLOATS {
        for length in [1, 2, 12, 37, 64] {
            let values = noise(3 * length, 1);
            let src = Tensor::floats(dtype, &[3, length, 1], &values);
            let middle = Tensor::output(DType::F64, &[3, length / 2 + 1, 2]);
            let wide = Tensor::floats(DType::F64, &[3, length, 1], &src.to_f64());
            run(Command::dft(middle.operand(), wide.operand(), 1, false, true));
            let half = Tensor::floats(dtype, &[3, length / 2 + 1, 2], &middle.to_f64());
            let back = Tensor::output(dtype, &[3, length, 1]);
            run(Command::dft(back.operand(), half.operand(), 1, true, true));
            assert_close(&back.to_f64(), &src.to_f64(), 8.0 * tolerance(dtype));
        }
    }
}

#[test]
fn bits_do_not_depend_on_threads() {
    let src = Tensor::floats(DType::F32, &[300, 97, 2], &noise(300 * 97 * 2, 2));
    let dst = Tensor::output(DType::F32, &[300, 97, 2]);
    let command = Command::dft(dst.operand(), src.operand(), 1, false, false).unwrap();
    assert_same_bits_in_any_order(&command, &dst);
    let signal = Tensor::floats(DType::F32, &[2, 4000, 1], &noise(8000, 3));
    let frames = Tensor::output(DType::F32, &[2, 37, 201, 2]);
    let command = Command::stft(frames.operand(), signal.operand(), None, 400, 100, true).unwrap();
    assert_same_bits_in_any_order(&command, &frames);
}
