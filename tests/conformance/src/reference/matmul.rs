//! Matrix products.

use millstream_core::Activation;

use super::activate;
use crate::accuracy::{sum, unit};
use crate::value::wrap;
use crate::{Dense, Expected, Value};

/// `activation(scale · a × b + Σ added)`, with `added` already of the output's shape.
pub(super) fn apply(
    shape: &[usize],
    a: &Dense,
    b: &Dense,
    added: &[Dense],
    scale: f64,
    activation: Activation,
) -> Vec<Expected> {
    let rank = shape.len();
    let (m, n) = (shape[rank - 2], shape[rank - 1]);
    let k = a.shape[a.shape.len() - 1];
    let matrices = |rows, columns| [&shape[..rank - 2], &[rows, columns]].concat();
    let numbers =
        |dense: Dense| dense.values.iter().map(|value| value.as_f64()).collect::<Vec<_>>();
    let dtype = a.dtype;
    let (a, b) = (numbers(a.broadcast(&matrices(m, k))), numbers(b.broadcast(&matrices(k, n))));

    let batches: usize = shape[..rank - 2].iter().product();
    let mut expected = Vec::with_capacity(batches * m * n);
    for batch in 0..batches {
        for row in 0..m {
            for column in 0..n {
                let (mut total, mut magnitude) = (0.0, 0.0);
                for at in 0..k {
                    let term = a[(batch * m + row) * k + at] * b[(batch * k + at) * n + column];
                    total += term;
                    magnitude += term.abs();
                }
                let place = (batch * m + row) * n + column;
                let (mut value, mut around) = (scale * total, (scale * total).abs());
                for extra in added {
                    value += extra.values[place].as_f64();
                    around += extra.values[place].as_f64().abs();
                }
                let error = sum(dtype, k, scale.abs() * magnitude) + 4.0 * unit(dtype) * around;
                expected.push(activate(activation, dtype, value, error));
            }
        }
    }
    expected
}

/// `a × b + Σ added` of integers, which wrap around.
pub(super) fn whole(shape: &[usize], a: &Dense, b: &Dense, added: &[Dense]) -> Vec<Expected> {
    let rank = shape.len();
    let (m, n) = (shape[rank - 2], shape[rank - 1]);
    let k = a.shape[a.shape.len() - 1];
    let matrices = |rows, columns| [&shape[..rank - 2], &[rows, columns]].concat();
    let dtype = a.dtype;
    let (a, b) = (a.broadcast(&matrices(m, k)), b.broadcast(&matrices(k, n)));
    let sum = |place: usize| {
        let (row, column, batch) = (place / n % m, place % n, place / n / m);
        let term = |at: usize| {
            let left = a.values[(batch * m + row) * k + at].as_i128();
            left.wrapping_mul(b.values[(batch * k + at) * n + column].as_i128())
        };
        let product = (0..k).map(term).fold(0, i128::wrapping_add);
        let whole = added.iter().map(|extra| extra.values[place].as_i128());
        Expected::Exact(Value::Int(wrap(dtype, whole.fold(product, i128::wrapping_add))))
    };
    (0..shape.iter().product()).map(sum).collect()
}
