use millstream_core::{Command, DType, Layout};

use crate::kernels::shared::testing::{
    FLOATS, Tensor, assert_close, assert_same_bits_in_any_order, noise, run, tolerance,
};

#[test]
fn hand_computed_values_are_met() {
    let src = Tensor::new(&[1, 4], &[1.0f64, -1.0, 3.0, 5.0]);
    let weight = Tensor::new(&[4], &[1.0f64, 2.0, 1.0, 2.0]);
    let dst = Tensor::output(DType::F64, &[1, 4]);
    // The mean square is 9; with 7 more the root is 4.
    run(Command::rms_norm(dst.operand(), src.operand(), Some(weight.operand()), 1, 7.0));
    assert_eq!(dst.values::<f64>(), [0.25, -0.5, 0.75, 2.5]);
}

#[test]
fn every_type_follows_the_definition_in_any_layout() {
    for dtype in FLOATS {
        for count in [1, 5, 64, 600, 1031] {
            let layout = Layout::contiguous(dtype, &[count, 3]).unwrap().transpose(0, 1).unwrap();
            let values = noise(3 * count, 1);
            let src = Tensor::floats(dtype, &[3, count], &values);
            let dst = Tensor::uninit(layout);
            run(Command::rms_norm(dst.operand(), src.operand(), None, 1, 1e-5));
            let expected: Vec<_> = src
                .to_f64()
                .chunks(count)
                .flat_map(|row| {
                    let mean = row.iter().map(|x| x * x).sum::<f64>() / count as f64;
                    let root = (mean + f64::from(1e-5f32)).sqrt();
                    row.iter().map(move |x| x / root).collect::<Vec<_>>()
                })
                .collect();
            assert_close(&dst.to_f64(), &expected, 4.0 * tolerance(dtype));
            let transposed = Tensor::floats_strided(layout, &values);
            run(Command::rms_norm(transposed.operand(), transposed.operand(), None, 1, 1e-5));
            assert_eq!(transposed.to_f64(), dst.to_f64());
        }
    }
}

#[test]
fn no_rows_and_no_elements_work() {
    for shape in [[0, 4], [4, 0]] {
        let tensor = Tensor::output(DType::F32, &shape);
        run(Command::rms_norm(tensor.operand(), tensor.operand(), None, 1, 1e-5));
    }
}

#[test]
fn results_do_not_depend_on_the_order_of_chunks() {
    let src = Tensor::floats(DType::F32, &[200, 257], &noise(200 * 257, 6));
    let dst = Tensor::output(DType::F32, &[200, 257]);
    let command = Command::rms_norm(dst.operand(), src.operand(), None, 1, 1e-5).unwrap();
    assert_same_bits_in_any_order(&command, &dst);
}
