use millstream_core::{Activation, Command, DType, Quantized};

use super::micro_kernel::{MicroTiles, STEPS, WIDTH};
use super::{TILE_COLUMNS, columns_of_a_tile};
use crate::kernels::shared::testing::{Tensor, assert_same_bits_in_any_order, run};

fn bytes(count: usize, seed: usize) -> Vec<u8> {
    (0..count).map(|i| ((i + seed) * 167 + (i >> 3) * 59 + seed) as u8).collect()
}

fn matrix(signed: bool, shape: &[usize], values: &[u8]) -> Tensor {
    match signed {
        true => Tensor::new(shape, &values.iter().map(|&v| v as i8).collect::<Vec<_>>()),
        false => Tensor::new(shape, values),
    }
}

fn number(signed: bool, byte: u8) -> i32 {
    if signed { i32::from(byte as i8) } else { i32::from(byte) }
}

#[test]
fn every_pair_of_types_and_every_size_is_exact() {
    for (lhs, rhs) in [(false, true), (false, false), (true, true), (true, false)] {
        for [m, k, n] in [[1, 1, 1], [3, 5, 7], [9, 64, 33], [257, 30, 300], [5, 2050, 40]] {
            let (x, y) = (bytes(m * k, 1), bytes(k * n, 2));
            let (p, q) = (bytes(m, 3), bytes(n, 4));
            let (a, b) = (matrix(lhs, &[m, k], &x), matrix(rhs, &[k, n], &y));
            let (a_zero, b_zero) = (matrix(lhs, &[m], &p), matrix(rhs, &[n], &q));
            let dst = Tensor::output(DType::I32, &[m, n]);
            for zeros in [false, true] {
                let command = Command::matmul_integer(
                    dst.operand(),
                    a.operand(),
                    b.operand(),
                    zeros.then(|| a_zero.operand()),
                    zeros.then(|| b_zero.operand()),
                );
                run(command);
                let one = |i: usize, j: usize| -> i32 {
                    let zero = |signed, byte| if zeros { number(signed, byte) } else { 0 };
                    let (za, zb) = (zero(lhs, p[i]), zero(rhs, q[j]));
                    (0..k)
                        .map(|s| {
                            (number(lhs, x[i * k + s]) - za) * (number(rhs, y[s * n + j]) - zb)
                        })
                        .sum()
                };
                let expected: Vec<i32> = (0..m * n).map(|i| one(i / n, i % n)).collect();
                assert!(dst.values::<i32>() == expected, "{lhs} {rhs} {m}x{k}x{n} {zeros}");
            }
        }
    }
}

#[test]
fn all_machines_give_the_same_sums() {
    let (rows, columns, groups) = (11usize, 70usize, 9usize);
    let panels = columns.div_ceil(WIDTH);
    let lhs = bytes(rows * groups * STEPS, 5);
    let rhs: Vec<i8> =
        bytes(panels * groups * STEPS * WIDTH, 6).iter().map(|&byte| byte as i8).collect();
    let stride = panels * WIDTH;
    let sums = |add: fn(&MicroTiles)| {
        let mut sums = vec![i32::MAX - 100; rows * stride];
        let (lhs, rhs) = (lhs.as_ptr(), rhs.as_ptr());
        add(&MicroTiles { rows, columns, groups, lhs, rhs, sums: sums.as_mut_ptr(), stride });
        sums
    };
    // SAFETY: the vectors have the sizes of the micro-tiles.
    let expected = sums(|micro_tiles| unsafe { micro_tiles.add_portably() });
    // SAFETY: as above.
    assert!(sums(|micro_tiles| unsafe { micro_tiles.add() }) == expected);
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: as above, and the CPU has the instructions.
        assert!(sums(|micro_tiles| unsafe { micro_tiles.add_with_avx2() }) == expected);
    }
}

#[test]
fn bits_do_not_depend_on_threads() {
    let (m, k, n) = (300, 70, 600);
    let a = matrix(false, &[m, k], &bytes(m * k, 7));
    let b = matrix(true, &[k, n], &bytes(k * n, 8));
    let dst = Tensor::output(DType::I32, &[m, n]);
    let command =
        Command::matmul_integer(dst.operand(), a.operand(), b.operand(), None, None).unwrap();
    assert_same_bits_in_any_order(&command, &dst);
}

#[test]
fn tiles_cover_all_columns_and_a_small_product_has_several() {
    for columns in [1, 31, 32, 33, 100, 256, 257, 384, 1536, 5000] {
        for rows_of_tiles in [1, 2, 3, 4, 100] {
            let most = columns_of_a_tile(columns, rows_of_tiles);
            assert!(most.is_multiple_of(WIDTH) && most <= TILE_COLUMNS, "{columns}: {most}");
            let across = columns.div_ceil(most);
            let possible = columns.div_ceil(WIDTH).min(3);
            assert!(rows_of_tiles * across >= possible, "{columns} in {across}");
            // No tile has less than half of another, unless it is a single panel.
            let last = columns - (across - 1) * most;
            assert!(2 * last >= most || most <= 3 * WIDTH, "{columns}: {most} and {last}");
        }
    }
}

/// They are computed as one, whose rows have the zero points and scales of the product that they are of.
#[test]
fn products_with_the_same_rhs_have_the_bits_that_they_have_alone() {
    let (count, rows, k, n) = (5, 70, 40, 33);
    let (x, y) = (bytes(count * rows * k, 1), bytes(k * n, 2));
    let (zeros, column_zeros) = (bytes(count, 3), bytes(n, 4));
    let scales: Vec<f32> = (0..count).map(|at| 0.3 * 10f32.powi(at as i32 - 2)).collect();
    let column_scales: Vec<f32> = (0..n).map(|at| 0.01 + at as f32 * 0.003).collect();
    let b = matrix(true, &[k, n], &y);
    let (b_scale, b_zero) = (Tensor::new(&[n], &column_scales), matrix(true, &[n], &column_zeros));
    let bias = Tensor::new(&[n], &column_scales);
    let product = |x: &[u8], zeros: &[u8], scales: &[f32]| {
        let count = zeros.len();
        let a = matrix(false, &[count, rows, k], x);
        let (zero, scale) =
            (matrix(false, &[count, 1, 1], zeros), Tensor::new(&[count, 1, 1], scales));
        let residual: Vec<f32> = x.iter().step_by(k).map(|&byte| f32::from(byte)).collect();
        let residual = Tensor::new(&[count, rows, 1], &residual);
        let dst = Tensor::output(DType::F32, &[count, rows, n]);
        run(Command::matmul_scaled(
            dst.operand(),
            Quantized { values: a.operand(), scale: scale.operand(), zero: Some(zero.operand()) },
            Quantized {
                values: b.operand(),
                scale: b_scale.operand(),
                zero: Some(b_zero.operand()),
            },
            Some(bias.operand()),
            Some(residual.operand()),
            Activation::Relu,
            None,
        ));
        let sums = Tensor::output(DType::I32, &[count, rows, n]);
        let zeros = [Some(zero.operand()), Some(b_zero.operand())];
        run(Command::matmul_integer(sums.operand(), a.operand(), b.operand(), zeros[0], zeros[1]));
        (dst.values::<f32>(), sums.values::<i32>())
    };
    let (joined, sums) = product(&x, &zeros, &scales);
    assert!(joined.iter().any(|&value| value > 0.0));
    for at in 0..count {
        let own = at * rows * n..(at + 1) * rows * n;
        let (alone, own_sums) =
            product(&x[at * rows * k..][..rows * k], &zeros[at..=at], &scales[at..=at]);
        assert_eq!(sums[own.clone()], own_sums, "{at}");
        let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&joined[own]), bits(&alone), "{at}");
    }
}
