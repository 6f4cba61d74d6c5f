use millstream_core::{Activation, BlockWeights, Command, DType};

use crate::kernels::shared::simd::on_every_isa;
use crate::kernels::shared::testing::{
    Tensor, assert_close, assert_same_bits_in_any_order, noise, run,
};

const BLOCK: usize = 32;

struct Given {
    a: Vec<f64>,
    k: usize,
    n: usize,
    bits: u8,
    weights: Tensor,
    scales: Tensor,
    zeros: Tensor,
}

impl Given {
    fn new(rows: usize, k: usize, n: usize, bits: u8) -> Self {
        let (blocks, wide) = (k.div_ceil(BLOCK), usize::from(bits));
        let byte = |i: usize| (i * 167 + (i >> 3) * 59) as u8;
        let bytes = |count: usize| (0..count).map(byte).collect::<Vec<_>>();
        let (each, packed) = (BLOCK * wide / 8, (blocks * wide).div_ceil(8));
        Given {
            a: noise(rows * k, 3),
            k,
            n,
            bits,
            weights: Tensor::new(&[n, blocks, each], &bytes(n * blocks * each)),
            scales: Tensor::floats(DType::F32, &[n, blocks], &noise(n * blocks, 4)),
            zeros: Tensor::new(&[n, packed], &bytes(n * packed)),
        }
    }

    fn command(&self, dst: &Tensor, a: &Tensor) -> Command<millstream_core::RawBuffer> {
        let b = BlockWeights {
            bits: self.bits,
            block: BLOCK as u16,
            weights: self.weights.operand(),
            scales: self.scales.operand(),
            zeros: Some(self.zeros.operand()),
        };
        let (dst, a) = (dst.operand(), a.operand());
        Command::matmul_blocks(dst, a, b, None, None, 0.5, Activation::None).unwrap()
    }

    fn rows(&self, first: usize, rows: usize) -> Vec<f64> {
        let a =
            Tensor::floats(DType::F32, &[rows, self.k], &self.a[first * self.k..][..rows * self.k]);
        let dst = Tensor::output(DType::F32, &[rows, self.n]);
        run(Ok(self.command(&dst, &a)));
        dst.to_f64()
    }

    fn expected(&self, row: usize) -> Vec<f64> {
        let (bits, blocks) = (usize::from(self.bits), self.k.div_ceil(BLOCK));
        let (weights, zeros) = (self.weights.values::<u8>(), self.zeros.values::<u8>());
        let scales = self.scales.to_f64();
        let number = |bytes: &[u8], at: usize| {
            f64::from(bytes[at * bits / 8] >> (at * bits % 8) & (0xff >> (8 - bits)))
        };
        let one = |n: usize| -> f64 {
            let column = &weights[n * weights.len() / self.n..];
            let zeros = &zeros[n * zeros.len() / self.n..];
            let term = |k: usize| {
                let block = k / BLOCK;
                let weight = number(column, k) - number(zeros, block);
                self.a[row * self.k + k] as f32 as f64 * weight * scales[n * blocks + block]
            };
            0.5 * (0..self.k).map(term).sum::<f64>()
        };
        (0..self.n).map(one).collect()
    }
}

#[test]
fn every_width_and_depth_is_right_on_every_machine() {
    for bits in [2, 4, 8] {
        for [rows, k, n] in [[1, 5, 1], [2, 64, 70], [5, 1100, 3], [70, 33, 9]] {
            let given = Given::new(rows, k, n, bits);
            on_every_isa(|| {
                let found = given.rows(0, rows);
                for row in 0..rows {
                    let reach = 2e-6 * k as f64 * f64::from(1u32 << bits);
                    assert_close(&found[row * n..][..n], &given.expected(row), reach);
                }
            });
        }
    }
}

#[test]
fn a_row_has_the_same_bits_alone_and_among_others() {
    let given = Given::new(41, 700, 67, 4);
    on_every_isa(|| {
        let whole = given.rows(0, 41);
        for row in [0, 3, 31, 32, 40] {
            assert_eq!(whole[row * 67..][..67], given.rows(row, 1));
        }
    });
}

#[test]
fn bits_do_not_depend_on_threads() {
    let given = Given::new(40, 300, 200, 4);
    let a = Tensor::floats(DType::F32, &[40, 300], &given.a);
    let dst = Tensor::output(DType::F32, &[40, 200]);
    assert_same_bits_in_any_order(&given.command(&dst, &a), &dst);
}
