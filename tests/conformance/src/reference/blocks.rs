//! Products with weights of few bits.

use millstream_core::{DType, Epilogue};

use super::matmul;
use crate::{Dense, Expected, Value};

/// How weights lie.
pub(super) struct FewBits {
    pub bits: u8,
    pub block: usize,
    pub zeros: bool,
}

impl FewBits {
    /// Number `at` of those that bytes hold, low bits first.
    fn number(&self, bytes: &[Value], at: usize) -> i64 {
        let bits = usize::from(self.bits);
        let byte = bytes[at * bits / 8].as_i64();
        byte >> (at * bits % 8) & ((1 << bits) - 1)
    }
}

/// `inputs` are the left side, weights, scales, and what else is given.
pub(super) fn apply(
    few: FewBits,
    shape: &[usize],
    inputs: &[Dense],
    epilogue: &Epilogue,
) -> Vec<Expected> {
    let [a, weights, scales] = &inputs[..3] else { unreachable!("three at least") };
    let zeros = few.zeros.then(|| &inputs[3]);
    let (n, k) = (weights.shape[0], a.shape[a.shape.len() - 1]);
    let (blocks, bytes) = (weights.shape[1], weights.shape[1] * weights.shape[2]);
    let weight = |at: usize| {
        let (row, column) = (at / n, at % n);
        let block = row / few.block;
        let number = few.number(&weights.values[column * bytes..][..bytes], row) as f64;
        let zero = match zeros {
            None => f64::from(1u32 << (few.bits - 1)),
            Some(zeros) if zeros.dtype == DType::U8 => {
                let wide = zeros.shape[1];
                few.number(&zeros.values[column * wide..][..wide], block) as f64
            }
            Some(zeros) => zeros.values[column * blocks + block].as_f64(),
        };
        Value::Float((number - zero) * scales.values[column * blocks + block].as_f64())
    };
    let values = (0..k * n).map(weight).collect();
    let b = Dense { dtype: a.dtype, shape: vec![k, n], values };
    let sums: Vec<Dense> =
        inputs[3 + usize::from(few.zeros)..].iter().map(|sum| sum.broadcast(shape)).collect();
    matmul::apply(shape, a, &b, &sums, f64::from(epilogue.scale), epilogue.activation)
}
