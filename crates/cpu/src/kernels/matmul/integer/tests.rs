use millstream_core::{Activation, Command, DType, Layout};

use crate::kernels::shared::testing::{Tensor, assert_same_bits_in_any_order, run};

fn numbers(count: usize, seed: i64) -> Vec<i64> {
    (0..count as i64).map(|i| (i + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64)).collect()
}

#[test]
fn sums_wrap_around_in_any_layout() {
    let (m, k, n) = (67, 301, 83);
    let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
    let expected: Vec<i64> = (0..m * n)
        .map(|at| {
            let term = |i: usize| a[at / n * k + i].wrapping_mul(b[i * n + at % n]);
            (0..k).map(term).fold(0, i64::wrapping_add)
        })
        .collect();
    let transposed = Layout::contiguous(DType::I64, &[n, k]).unwrap().transpose(0, 1).unwrap();
    for rhs in [Tensor::new(&[k, n], &b), Tensor::strided(transposed, &b)] {
        let (lhs, dst) = (Tensor::new(&[m, k], &a), Tensor::output(DType::I64, &[m, n]));
        let [dst_operand, lhs, rhs] = [dst.operand(), lhs.operand(), rhs.operand()];
        let command = Command::matmul(dst_operand, lhs, rhs, None, None, 1.0, Activation::None);
        assert_same_bits_in_any_order(&command.unwrap(), &dst);
        assert!(dst.values::<i64>() == expected);
    }
}

#[test]
fn bias_and_residual_are_added() {
    let a = Tensor::new(&[1, 2], &[3i32, i32::MAX]);
    let b = Tensor::new(&[2, 2], &[1i32, 2, 1, 2]);
    let (bias, residual) = (Tensor::new(&[2], &[10i32, 20]), Tensor::new(&[1, 2], &[1i32, 1]));
    let dst = Tensor::output(DType::I32, &[1, 2]);
    run(Command::matmul(
        dst.operand(),
        a.operand(),
        b.operand(),
        Some(bias.operand()),
        Some(residual.operand()),
        1.0,
        Activation::None,
    ));
    assert_eq!(dst.values::<i32>(), [i32::MIN + 13, 6 - 2 + 21]);
}
