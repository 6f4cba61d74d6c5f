use millstream_core::{Command, DType, Layout};

use crate::kernels::shared::testing::{Tensor, assert_same_bits_in_any_order, noise, run};

fn sums(values: &[i8], exclusive: bool, reverse: bool) -> Vec<i8> {
    let tensor = Tensor::new(&[values.len()], values);
    run(Command::cumsum(tensor.operand(), tensor.operand(), 0, exclusive, reverse));
    tensor.values()
}

#[test]
fn sums_run_either_way_with_or_without_the_element() {
    assert_eq!(sums(&[1, 2, 3], false, false), [1, 3, 6]);
    assert_eq!(sums(&[1, 2, 3], true, false), [0, 1, 3]);
    assert_eq!(sums(&[1, 2, 3], false, true), [6, 5, 3]);
    assert_eq!(sums(&[1, 2, 3], true, true), [5, 3, 0]);
    assert_eq!(sums(&[100, 100, 1], false, false), [100, -56, -55]);
}

#[test]
fn both_loops_give_the_same_bits() {
    let values = noise(37 * 1300, 1);
    let layouts = [
        Layout::contiguous(DType::F32, &[37, 1300]).unwrap(),
        Layout::contiguous(DType::F32, &[1300, 37]).unwrap().transpose(0, 1).unwrap(),
        Layout::strided(DType::F32, &[37, 1300], &[3, 120], 1).unwrap(),
    ];
    for axis in [0, 1] {
        for (exclusive, reverse) in [(false, false), (true, true), (false, true)] {
            let results = layouts.map(|layout| {
                let tensor = Tensor::floats_strided(layout, &values);
                let operand = tensor.operand();
                run(Command::cumsum(operand, operand, axis, exclusive, reverse));
                tensor.values::<f32>()
            });
            assert!(results[0] == results[1] && results[1] == results[2]);
        }
    }
}

#[test]
fn no_elements_work() {
    for (shape, axis) in [([0, 4], 0), ([4, 0], 0), ([4, 0], 1)] {
        let tensor = Tensor::output(DType::F32, &shape);
        run(Command::cumsum(tensor.operand(), tensor.operand(), axis, false, false));
    }
}

#[test]
fn results_do_not_depend_on_the_order_of_chunks() {
    let src = Tensor::floats(DType::BF16, &[90, 401], &noise(90 * 401, 1));
    let dst = Tensor::output(DType::BF16, &[90, 401]);
    for axis in [0, 1] {
        let command = Command::cumsum(dst.operand(), src.operand(), axis, false, false).unwrap();
        assert_same_bits_in_any_order(&command, &dst);
    }
}

#[test]
fn products_run_as_sums_do() {
    let products = |exclusive: bool, reverse: bool| {
        let tensor = Tensor::new(&[3], &[2i32, -3, 5]);
        run(Command::cumprod(tensor.operand(), tensor.operand(), 0, exclusive, reverse));
        tensor.values::<i32>()
    };
    assert_eq!(products(false, false), [2, -6, -30]);
    assert_eq!(products(true, false), [1, 2, -6]);
    assert_eq!(products(false, true), [-30, -15, 5]);
    assert_eq!(products(true, true), [-15, 5, 1]);
    let tensor = Tensor::new(&[2, 2], &[0.5f32, 2.0, 4.0, -1.0]);
    run(Command::cumprod(tensor.operand(), tensor.operand(), 0, false, false));
    assert_eq!(tensor.values::<f32>(), [0.5, 2.0, 2.0, -2.0]);
}
