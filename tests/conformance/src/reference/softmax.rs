//! Softmax and its logarithm.

use super::near;
use super::reduce::log_sum_exp;
use crate::accuracy::{smallest, unit};
use crate::{Dense, Expected};

pub(super) fn apply(axis: usize, log: bool, input: &Dense) -> Vec<Expected> {
    let size = input.shape[axis];
    let inner: usize = input.shape[axis + 1..].iter().product();
    let mut expected = vec![Expected::Any; input.values.len()];
    for start in (0..input.values.len()).filter(|at| (at / inner).is_multiple_of(size)) {
        let places: Vec<usize> = (0..size).map(|at| start + at * inner).collect();
        let row: Vec<f64> = places.iter().map(|&place| input.values[place].as_f64()).collect();
        let total = log_sum_exp(&row);
        let largest = row.iter().fold(f64::NEG_INFINITY, |best, &value| best.max(value));
        let sum: f64 = row.iter().map(|x| (x - largest).exp()).sum();
        let reach = (8.0 + 2.0 * (size as f64).sqrt()) * unit(input.dtype);
        for (&place, &x) in places.iter().zip(&row) {
            // An infinite total leaves ∞ - ∞, which is NaN as in the formula. A NaN or +∞ spoils the
            // whole row; a row of -∞ is 0 / 0.
            let value = if total.is_finite() { x - total } else { f64::NAN };
            // An input far below the largest loses digits as the largest is taken off.
            let distance = 4.0 * unit(input.dtype) * ((x - largest).abs() + largest.abs().min(1.0));
            expected[place] = if log {
                let rounding = 4.0 * unit(input.dtype) * (largest.abs() + value.abs());
                near(value, reach + distance + rounding)
            } else {
                // Not the exponential of the logarithm, which loses the digits that it took up.
                let share = if value.is_nan() { value } else { (x - largest).exp() / sum };
                let relative = if share == 0.0 { 0.0 } else { reach + distance };
                near(share, relative * share + smallest(input.dtype))
            };
        }
    }
    expected
}
