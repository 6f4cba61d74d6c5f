use millstream_core::{Command, DType};

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
