use millstream_core::{Command, DType, Layout};

use crate::kernels::shared::testing::{
    FLOATS, Tensor, assert_close, assert_same_bits_in_any_order, noise, run, tolerance,
};

fn reference(values: &[f64], [channels, size]: [usize; 2], groups: usize) -> Vec<f64> {
    let count = channels / groups * size;
    let mut results = Vec::new();
    for group in values.chunks(count) {
        let mean = group.iter().sum::<f64>() / count as f64;
        let variance = group.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count as f64;
        let root = (variance + f64::from(1e-5f32)).sqrt();
        results.extend(group.iter().map(|x| (x - mean) / root));
    }
    results
}

#[test]
fn every_type_follows_the_definition_for_any_number_of_groups() {
    for dtype in FLOATS {
        for groups in [1, 2, 3, 6] {
            let src = Tensor::floats(dtype, &[2, 6, 5, 31], &noise(2 * 6 * 155, 1));
            let weight = Tensor::floats(dtype, &[6], &[1.0, 2.0, 0.5, -1.0, 0.0, 3.0]);
            let bias = Tensor::floats(dtype, &[6], &[0.0, 1.0, 0.5, -1.0, 2.0, 0.0]);
            let dst = Tensor::output(dtype, &[2, 6, 5, 31]);
            let parameters = (Some(weight.operand()), Some(bias.operand()));
            run(Command::group_norm(
                dst.operand(),
                src.operand(),
                parameters.0,
                parameters.1,
                groups,
                1e-5,
            ));
            let (weight, bias) = (weight.to_f64(), bias.to_f64());
            let expected: Vec<_> = reference(&src.to_f64(), [6, 155], groups)
                .iter()
                .enumerate()
                .map(|(i, x)| x * weight[i / 155 % 6] + bias[i / 155 % 6])
                .collect();
            assert_close(&dst.to_f64(), &expected, 8.0 * tolerance(dtype));
        }
    }
}

#[test]
fn layouts_do_not_change_the_bits() {
    let values = noise(3 * 4 * 70, 2);
    let dense = Tensor::floats(DType::F32, &[3, 4, 70], &values);
    let dst = Tensor::output(DType::F32, &[3, 4, 70]);
    run(Command::group_norm(dst.operand(), dense.operand(), None, None, 2, 1e-5));
    let layout = Layout::contiguous(DType::F32, &[70, 3, 4]).unwrap().permute(&[1, 2, 0]).unwrap();
    let transposed = Tensor::floats_strided(layout, &values);
    run(Command::group_norm(transposed.operand(), transposed.operand(), None, None, 2, 1e-5));
    assert_eq!(transposed.values::<f32>(), dst.values::<f32>());
    run(Command::group_norm(dense.operand(), dense.operand(), None, None, 2, 1e-5));
    assert_eq!(dense.values::<f32>(), dst.values::<f32>());
}

#[test]
fn nothing_to_normalise_works() {
    for shape in [[0, 4, 2], [2, 0, 2], [2, 4, 0]] {
        let tensor = Tensor::output(DType::F32, &shape);
        run(Command::group_norm(tensor.operand(), tensor.operand(), None, None, 2, 1e-5));
    }
}

#[test]
fn results_do_not_depend_on_the_order_of_chunks() {
    let src = Tensor::floats(DType::F16, &[6, 8, 1100], &noise(6 * 8 * 1100, 6));
    let dst = Tensor::output(DType::F16, &[6, 8, 1100]);
    let command = Command::group_norm(dst.operand(), src.operand(), None, None, 4, 1e-5).unwrap();
    assert_same_bits_in_any_order(&command, &dst);
}
