use millstream_core::{Command, DType, Layout};

use crate::kernels::shared::testing::{
    FLOATS, Tensor, assert_close, assert_same_bits_in_any_order, noise, run, tolerance,
};

fn reference(values: &[f64], weight: &[f64], bias: &[f64], epsilon: f64) -> Vec<f64> {
    let count = weight.len();
    let one = |row: &[f64]| {
        let mean = row.iter().sum::<f64>() / count as f64;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count as f64;
        let normal = |i: usize| (row[i] - mean) / (variance + epsilon).sqrt();
        (0..count).map(|i| normal(i) * weight[i] + bias[i]).collect::<Vec<_>>()
    };
    values.chunks(count).flat_map(one).collect()
}

#[test]
fn hand_computed_values_are_met() {
    let src = Tensor::new(&[1, 4], &[1.0f64, 1.0, 3.0, 3.0]);
    let weight = Tensor::new(&[4], &[1.0f64, 2.0, 1.0, 2.0]);
    let bias = Tensor::new(&[4], &[0.0f64, 0.0, 10.0, 10.0]);
    let dst = Tensor::output(DType::F64, &[1, 4]);
    let operands = (Some(weight.operand()), Some(bias.operand()));
    run(Command::layer_norm(dst.operand(), src.operand(), operands.0, operands.1, 1, 3.0));
    assert_eq!(dst.values::<f64>(), [-0.5, -1.0, 10.5, 11.0]);
}

#[test]
fn parameters_are_optional_and_every_type_follows_the_definition() {
    for dtype in FLOATS {
        for count in [1, 5, 64, 600, 1031] {
            let values: Vec<_> = noise(3 * count, 1).iter().map(|x| x * 3.0 + 1.0).collect();
            let src = Tensor::floats(dtype, &[3, count], &values);
            let weight = Tensor::floats(dtype, &[count], &noise(count, 2));
            let bias = Tensor::floats(dtype, &[count], &noise(count, 3));
            for (with_weight, with_bias) in
                [(false, false), (true, false), (false, true), (true, true)]
            {
                let dst = Tensor::output(dtype, &[3, count]);
                run(Command::layer_norm(
                    dst.operand(),
                    src.operand(),
                    with_weight.then(|| weight.operand()),
                    with_bias.then(|| bias.operand()),
                    1,
                    1e-5,
                ));
                let weights = if with_weight { weight.to_f64() } else { vec![1.0; count] };
                let biases = if with_bias { bias.to_f64() } else { vec![0.0; count] };
                let epsilon = f64::from(1e-5f32);
                let expected = reference(&src.to_f64(), &weights, &biases, epsilon);
                assert_close(&dst.to_f64(), &expected, 4.0 * tolerance(dtype));
            }
        }
    }
}

#[test]
fn a_large_mean_does_not_spoil_the_variance() {
    let values: Vec<f32> = (0..1000).map(|i| 10_000.0 + (i % 2) as f32).collect();
    let src = Tensor::new(&[1000], &values);
    let dst = Tensor::output(DType::F32, &[1000]);
    run(Command::layer_norm(dst.operand(), src.operand(), None, None, 1, 0.0));
    for (i, value) in dst.values::<f32>().into_iter().enumerate() {
        assert_eq!(value, if i % 2 == 0 { -1.0 } else { 1.0 });
    }
}

#[test]
fn several_axes_and_layouts_do_not_change_the_bits_of_a_row() {
    let values = noise(4 * 5 * 30, 4);
    let weight = Tensor::floats(DType::F32, &[5, 30], &noise(150, 5));
    let dense = Tensor::floats(DType::F32, &[4, 5, 30], &values);
    let expected = Tensor::output(DType::F32, &[4, 5, 30]);
    let weights = Some(weight.operand());
    run(Command::layer_norm(expected.operand(), dense.operand(), weights, None, 2, 1e-5));
    let flat = reference(&dense.to_f64(), &weight.to_f64(), &[0.0; 150], f64::from(1e-5f32));
    assert_close(&expected.to_f64(), &flat, 1e-6);

    let transposed =
        Layout::contiguous(DType::F32, &[30, 4, 5]).unwrap().permute(&[1, 2, 0]).unwrap();
    let src = Tensor::floats_strided(transposed, &values);
    run(Command::layer_norm(src.operand(), src.operand(), weights, None, 2, 1e-5));
    assert_eq!(src.values::<f32>(), expected.values::<f32>());
    let alone = Tensor::floats(DType::F32, &[5, 30], &values[450..]);
    // The result may even replace the weight.
    run(Command::layer_norm(weight.operand(), alone.operand(), weights, None, 2, 1e-5));
    assert_eq!(weight.values::<f32>(), expected.values::<f32>()[450..]);
}

#[test]
fn no_rows_and_no_elements_work() {
    for shape in [[0, 4], [4, 0]] {
        let tensor = Tensor::output(DType::F32, &shape);
        run(Command::layer_norm(tensor.operand(), tensor.operand(), None, None, 1, 1e-5));
    }
}

#[test]
fn results_do_not_depend_on_the_order_of_chunks() {
    let src = Tensor::floats(DType::F16, &[200, 257], &noise(200 * 257, 6));
    let weight = Tensor::floats(DType::F16, &[257], &noise(257, 7));
    let dst = Tensor::output(DType::F16, &[200, 257]);
    let operands = (dst.operand(), src.operand(), Some(weight.operand()));
    let command = Command::layer_norm(operands.0, operands.1, operands.2, None, 1, 1e-5).unwrap();
    assert_same_bits_in_any_order(&command, &dst);
}
