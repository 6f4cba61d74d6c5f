use millstream_core::{Command, DType, Layout};

use crate::kernels::shared::testing::{Tensor, assert_same_bits_in_any_order, fault, run};

fn numbers(shape: &[usize]) -> Tensor {
    let count = shape.iter().product::<usize>() as i32;
    Tensor::new(shape, &(0..count).collect::<Vec<_>>())
}

#[test]
fn gather_puts_the_axes_of_the_indices_in_place_of_the_axis() {
    let src = numbers(&[2, 3, 2]);
    let indices = Tensor::new(&[2, 2], &[0i64, -1, 1, 1]);
    let dst = Tensor::output(DType::I32, &[2, 2, 2, 2]);
    run(Command::gather(dst.operand(), src.operand(), indices.operand(), 1));
    let expected = [0, 1, 4, 5, 2, 3, 2, 3, 6, 7, 10, 11, 8, 9, 8, 9];
    assert_eq!(dst.values::<i32>(), expected);
    let one = Tensor::strided(Layout::scalar(DType::I32), &[-3i32]);
    let dst = Tensor::output(DType::I32, &[2, 2]);
    run(Command::gather(dst.operand(), src.operand(), one.operand(), 1));
    assert_eq!(dst.values::<i32>(), [0, 1, 6, 7]);
}

#[test]
fn embedding_gives_rows_of_any_type() {
    let table = Tensor::new(&[3, 2], &[1i64, 2, 3, 4, 5, 6]);
    let ids = Tensor::new(&[1, 3], &[2i32, 0, 2]);
    let dst = Tensor::output(DType::I64, &[1, 3, 2]);
    run(Command::embedding(dst.operand(), table.operand(), ids.operand()));
    assert_eq!(dst.values::<i64>(), [5, 6, 1, 2, 5, 6]);
}

#[test]
fn gather_elements_replaces_one_coordinate() {
    let src = numbers(&[3, 3]);
    let indices = Tensor::new(&[2, 3], &[1i64, 2, 0, -1, 0, 0]);
    let dst = Tensor::output(DType::I32, &[2, 3]);
    run(Command::gather_elements(dst.operand(), src.operand(), indices.operand(), 0));
    assert_eq!(dst.values::<i32>(), [3, 7, 2, 6, 1, 2]);
    run(Command::gather_elements(dst.operand(), src.operand(), indices.operand(), 1));
    assert_eq!(dst.values::<i32>(), [1, 2, 0, 5, 3, 3]);
}

#[test]
fn gather_nd_takes_slices_by_tuples_behind_shared_axes() {
    let src = numbers(&[2, 2, 2]);
    let indices = Tensor::new(&[2, 2], &[0i64, 1, 1, -2]);
    let dst = Tensor::output(DType::I32, &[2, 2]);
    run(Command::gather_nd(dst.operand(), src.operand(), indices.operand(), 0));
    assert_eq!(dst.values::<i32>(), [2, 3, 4, 5]);
    let indices = Tensor::new(&[2, 1], &[1i32, 0]);
    run(Command::gather_nd(dst.operand(), src.operand(), indices.operand(), 1));
    assert_eq!(dst.values::<i32>(), [2, 3, 4, 5]);
}

#[test]
fn an_index_outside_its_axis_is_a_fault_that_names_it() {
    let src = numbers(&[3, 4]);
    let dst = Tensor::output(DType::I32, &[1, 4]);
    for index in [3, -4, i64::MAX, i64::MIN] {
        let indices = Tensor::new(&[1], &[index]);
        let command = Command::gather(dst.operand(), src.operand(), indices.operand(), 0);
        let expected = format!("index {index} is outside an axis of size 3");
        assert_eq!(fault(command), expected);
    }
    let empty = Tensor::output(DType::I32, &[0, 4]);
    let indices = Tensor::new(&[1], &[0i32]);
    let command = Command::gather(dst.operand(), empty.operand(), indices.operand(), 0);
    assert_eq!(fault(command), "index 0 is outside an axis of size 0");
}

#[test]
fn nothing_to_gather_works() {
    let (src, indices) = (numbers(&[3, 4]), Tensor::output(DType::I64, &[0]));
    let dst = Tensor::output(DType::I32, &[0, 4]);
    run(Command::gather(dst.operand(), src.operand(), indices.operand(), 0));
    let (src, indices) = (Tensor::output(DType::I32, &[3, 0]), Tensor::new(&[1], &[2i64]));
    let dst = Tensor::output(DType::I32, &[1, 0]);
    run(Command::gather(dst.operand(), src.operand(), indices.operand(), 0));
}

#[test]
fn results_do_not_depend_on_the_order_of_chunks() {
    let ids: Vec<i64> = (0..600).map(|i| (i * 37) % 100).collect();
    let (table, ids) = (numbers(&[100, 70]), Tensor::new(&[600], &ids));
    let dst = Tensor::output(DType::I32, &[600, 70]);
    let command = Command::embedding(dst.operand(), table.operand(), ids.operand()).unwrap();
    assert_same_bits_in_any_order(&command, &dst);
    // A single slice that is split.
    let (src, index) = (numbers(&[2, 300, 170]), Tensor::new(&[1], &[1i32]));
    let dst = Tensor::output(DType::I32, &[1, 300, 170]);
    let command = Command::gather(dst.operand(), src.operand(), index.operand(), 0).unwrap();
    assert_same_bits_in_any_order(&command, &dst);
    assert_eq!(dst.values::<i32>(), src.values::<i32>()[51_000..]);
}
