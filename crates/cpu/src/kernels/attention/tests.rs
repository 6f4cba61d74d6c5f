use millstream_core::{Command, DType};

use crate::kernels::shared::testing::{
    FLOATS, Tensor, assert_close, assert_same_bits_in_any_order, noise, run, tolerance,
};

struct Sizes {
    batch: usize,
    heads: usize,
    key_heads: usize,
    queries: usize,
    keys: usize,
    size: usize,
}

fn reference(s: &Sizes, [q, k, v]: [&[f64]; 3], causal: bool, scale: f64) -> Vec<f64> {
    let mut results = Vec::new();
    for index in 0..s.batch * s.heads * s.queries {
        let (head, query) = (index / s.queries, index % s.queries);
        let (batch, head) = (head / s.heads, head % s.heads);
        let key_head = batch * s.key_heads + head / (s.heads / s.key_heads);
        let row = |at: usize| (key_head * s.keys + at) * s.size;
        let scores: Vec<f64> = (0..s.keys)
            .filter(|at| !causal || at + s.queries <= query + s.keys)
            .map(|at| {
                let dot: f64 = (0..s.size).map(|i| q[index * s.size + i] * k[row(at) + i]).sum();
                (dot * scale).exp()
            })
            .collect();
        let total: f64 = scores.iter().sum();
        for i in 0..s.size {
            let sum: f64 = scores.iter().enumerate().map(|(at, p)| p * v[row(at) + i]).sum();
            results.push(if total == 0.0 { 0.0 } else { sum / total });
        }
    }
    results
}

#[test]
fn every_size_and_type_follows_the_definition() {
    let sizes = [
        Sizes { batch: 2, heads: 4, key_heads: 2, queries: 19, keys: 23, size: 5 },
        Sizes { batch: 1, heads: 2, key_heads: 2, queries: 130, keys: 300, size: 64 },
        Sizes { batch: 1, heads: 3, key_heads: 1, queries: 9, keys: 4, size: 3 },
    ];
    for s in &sizes {
        for dtype in FLOATS {
            for causal in [false, true] {
                let (many, few) =
                    ([s.batch, s.heads, s.queries, s.size], [s.batch, s.key_heads, s.keys, s.size]);
                let tensor = |shape: &[usize], seed| {
                    Tensor::floats(dtype, shape, &noise(shape.iter().product(), seed))
                };
                let (q, k, v) = (tensor(&many, 1), tensor(&few, 2), tensor(&few, 3));
                let dst = Tensor::output(dtype, &many);
                let (to, [a, b, c]) = (dst.operand(), [&q, &k, &v].map(Tensor::operand));
                let command = Command::attention(to, a, b, c, None, 0.5, causal).unwrap();
                assert_same_bits_in_any_order(&command, &dst);
                let values = [&q, &k, &v].map(Tensor::to_f64);
                let [a, b, c] = [&values[0][..], &values[1], &values[2]];
                let expected = reference(s, [a, b, c], causal, 0.5);
                assert_close(&dst.to_f64(), &expected, tolerance(dtype).max(4e-6));
            }
        }
    }
}

#[test]
fn a_query_that_sees_nothing_gives_zeros() {
    let tensor = |seed| Tensor::floats(DType::F32, &[1, 1, 2, 3], &noise(6, seed));
    let (q, k, v) = (tensor(1), tensor(2), tensor(3));
    let mask = Tensor::bools(&[2, 2], &[0, 0, 0, 1]);
    let dst = Tensor::output(DType::F32, &[1, 1, 2, 3]);
    let [a, b, c, m] = [&q, &k, &v, &mask].map(Tensor::operand);
    run(Command::attention(dst.operand(), a, b, c, Some(m), 1.0, false));
    let found = dst.values::<f32>();
    assert_eq!(found[..3], [0.0; 3]);
    assert_eq!(found[3..], v.values::<f32>()[3..]);
    let hidden = Tensor::floats(DType::F32, &[2, 1], &[f64::NEG_INFINITY, 0.0]);
    run(Command::attention(dst.operand(), a, b, c, Some(hidden.operand()), 1.0, false));
    assert_eq!(dst.values::<f32>()[..3], [0.0; 3]);
}
