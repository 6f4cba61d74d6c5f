use millstream_core::{Command, DType, Element, ScatterReduction};

use crate::kernels::shared::testing::{Tensor, assert_same_bits_in_any_order, fault, noise, run};
use ScatterReduction::*;

fn scattered<T: Element>(src: &[T], at: &[i64], updates: &[T], how: ScatterReduction) -> Vec<T> {
    let (src, at) = (Tensor::new(&[src.len()], src), Tensor::new(&[at.len()], at));
    let updates = Tensor::new(&[updates.len()], updates);
    let operand = src.operand();
    run(Command::scatter_elements(operand, operand, at.operand(), updates.operand(), 0, how));
    src.values()
}

#[test]
fn duplicates_are_applied_in_row_major_order() {
    assert_eq!(scattered(&[0i32; 3], &[1, -1, 1], &[5, 6, 7], Replace), [0, 7, 6]);
    assert_eq!(scattered(&[1i32, 2, 3], &[1, 1, 0], &[10, 100, 1000], Add), [1001, 112, 3]);
    assert_eq!(scattered(&[1u8, 2, 3], &[1, 1], &[100, 2], Multiply), [1, 144, 3]);
    assert_eq!(scattered(&[1i8, 2, 3], &[0, 1, 2], &[2, -2, 3], Max), [2, 2, 3]);
    assert_eq!(scattered(&[1i64, 2, 3], &[0, 1, 1], &[2, -2, 9], Min), [1, -2, 3]);
    // Not the same in another order.
    assert_eq!(scattered(&[1e8f32], &[0, 0], &[1.0, -1e8], Add), [0.0]);
}

#[test]
fn scatter_elements_writes_along_either_axis() {
    let src = Tensor::new(&[3, 3], &[0.0f32; 9]);
    let indices = Tensor::new(&[2, 3], &[1i32, 0, 2, 0, 2, 1]);
    let updates = Tensor::new(&[2, 3], &[1.0f32, 1.1, 1.2, 2.0, 2.1, 2.2]);
    let dst = Tensor::output(DType::F32, &[3, 3]);
    let run = |axis| {
        let (dst, src) = (dst.operand(), src.operand());
        run(Command::scatter_elements(dst, src, indices.operand(), updates.operand(), axis, Add));
    };
    run(0);
    assert_eq!(dst.values::<f32>(), [2.0, 1.1, 0.0, 1.0, 0.0, 2.2, 0.0, 2.1, 1.2]);
    run(1);
    assert_eq!(dst.values::<f32>(), [1.1, 1.0, 1.2, 2.0, 2.2, 2.1, 0.0, 0.0, 0.0]);
}

#[test]
fn scatter_nd_writes_slices() {
    let src = Tensor::new(&[3, 2], &[1i64, 2, 3, 4, 5, 6]);
    let indices = Tensor::new(&[2, 1], &[2i64, 2]);
    let updates = Tensor::new(&[2, 2], &[10i64, 20, 30, 40]);
    let dst = Tensor::output(DType::I64, &[3, 2]);
    for (how, last) in [(Replace, [30, 40]), (Add, [45, 66]), (Multiply, [1500, 4800])] {
        let operands = (dst.operand(), src.operand(), indices.operand(), updates.operand());
        run(Command::scatter_nd(operands.0, operands.1, operands.2, operands.3, how));
        assert_eq!(dst.values::<i64>(), [1, 2, 3, 4, last[0], last[1]]);
    }
}

#[test]
fn an_index_outside_the_output_is_a_fault() {
    let (src, dst) = (Tensor::new(&[3], &[7i32; 3]), Tensor::output(DType::I32, &[3]));
    let (at, updates) = (Tensor::new(&[2], &[0i64, 3]), Tensor::new(&[2], &[1i32, 2]));
    let (to, from) = (dst.operand(), src.operand());
    for how in [Replace, Add, Multiply, Max, Min] {
        let command = Command::scatter_elements(to, from, at.operand(), updates.operand(), 0, how);
        assert_eq!(fault(command), "index 3 is outside an axis of size 3");
    }
    let tuples = Tensor::new(&[2, 1], &[-4i64, 0]);
    let command = Command::scatter_nd(to, from, tuples.operand(), updates.operand(), Replace);
    assert_eq!(fault(command), "index -4 is outside an axis of size 3");
}

#[test]
fn results_do_not_depend_on_the_order_of_chunks() {
    let places: Vec<i64> = (0..300).map(|i| (i * 7) % 20).collect();
    let src = Tensor::floats(DType::F32, &[20, 1000], &noise(20_000, 1));
    let updates = Tensor::floats(DType::F32, &[300, 1000], &noise(300_000, 2));
    let dst = Tensor::output(DType::F32, &[20, 1000]);
    let tuples = Tensor::new(&[300, 1], &places);
    let (to, from) = (dst.operand(), src.operand());
    let command = Command::scatter_nd(to, from, tuples.operand(), updates.operand(), Add);
    assert_same_bits_in_any_order(&command.unwrap(), &dst);
    let all: Vec<i64> = (0..300_000).map(|i| (i * 7) % 20).collect();
    let indices = Tensor::new(&[300, 1000], &all);
    let command = Command::scatter_elements(to, from, indices.operand(), updates.operand(), 0, Add);
    assert_same_bits_in_any_order(&command.unwrap(), &dst);
}
