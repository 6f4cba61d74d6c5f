//! Accuracy of each function that kernels use, against f64 of the host.

use super::lab::Lab;
use super::numbers::random;
use super::{Check, RowResult, compared};

/// A function of the probe's text with what it should be.
struct Function {
    what: u32,
    /// Units in the last place by which it may be off, as the specification of the language has it, or as our texts promise.
    units: f64,
    /// Where its arguments lie.
    from: f32,
    to: f32,
    exact: fn(f64, f64) -> f64,
}

macro_rules! functions {
    ($($name:literal $what:literal $units:literal $from:literal $to:literal $assumed:literal $exact:expr;)*) => {
        pub(super) const CHECKS: &[Check] = &[$(Check {
            name: $name,
            assumed: $assumed,
            run: |lab| accuracy(lab, &Function { what: $what, units: $units, from: $from, to: $to, exact: $exact }),
        },)*];
    };
}

functions! {
    "accuracy-exp" 16 4.0 -87.0 88.0 "exp: 4 units in the last place" |x, _| x.exp();
    "accuracy-log" 17 4.0 1e-30 1e30 "log: 4 units" |x, _| x.ln();
    "accuracy-log2" 18 4.0 1e-30 1e30 "log2: 4 units" |x, _| x.log2();
    "accuracy-sqrt" 19 0.5 1e-30 1e30 "sqrt: correctly rounded" |x, _| x.sqrt();
    "accuracy-rsqrt" 20 2.0 1e-30 1e30 "rsqrt: 2 units" |x, _| 1.0 / x.sqrt();
    "accuracy-sin" 21 4.0 -1000.0 1000.0 "sin: 4 units" |x, _| x.sin();
    "accuracy-cos" 22 4.0 -1000.0 1000.0 "cos: 4 units" |x, _| x.cos();
    "accuracy-tan" 23 6.0 -1000.0 1000.0 "tan: 6 units" |x, _| x.tan();
    "accuracy-asin" 24 4.0 -1.0 1.0 "asin: 4 units" |x, _| x.asin();
    "accuracy-acos" 25 4.0 -1.0 1.0 "acos: 4 units" |x, _| x.acos();
    "accuracy-atan" 26 5.0 -1e6 1e6 "atan: 5 units" |x, _| x.atan();
    "accuracy-sinh" 27 4.0 -85.0 85.0 "sinh: 4 units" |x, _| x.sinh();
    "accuracy-cosh" 28 4.0 -85.0 85.0 "cosh: 4 units" |x, _| x.cosh();
    "accuracy-tanh" 29 5.0 -10.0 10.0 "tanh: 5 units" |x, _| x.tanh();
    "accuracy-pow" 30 16.0 1e-4 1e4 "pow: 16 units" f64::powf;
    "accuracy-atan2" 31 6.0 1e-6 1e6 "atan2: 6 units" f64::atan2;
    "accuracy-erf" 32 8.0 -5.0 5.0 "erf, as our texts compute it: 8 units" |x, _| erf(x);
    "accuracy-expm1" 33 16.0 -20.0 80.0 "expm1, as our texts compute it: 16 units" |x, _| x.exp_m1();
    "accuracy-log1p" 34 16.0 -0.99 1e6 "log1p, as our texts compute it: 16 units" |x, _| x.ln_1p();
}

/// The error function, by a series whose terms are all positive.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

/// Arguments: spread evenly, and over sizes as well where they are large.
fn arguments(function: &Function) -> [Vec<f32>; 2] {
    let Function { from, to, .. } = *function;
    let share = |bits: u32| bits as f32 / u32::MAX as f32;
    let mut bits = random(3);
    let mut next = || share(bits.next().unwrap_or_default());
    let by_size = from > 0.0;
    let mut argument = |small: bool| {
        let at = next();
        match (by_size, small) {
            (true, _) => (from.ln() + at * (to.ln() - from.ln())).exp().clamp(from, to),
            (false, true) => (at * 2.0 - 1.0) * to.min(-from).min(1.0),
            (false, false) => from + at * (to - from),
        }
    };
    let x = (0..1 << 13).map(|i| argument(i % 4 == 0)).collect();
    // Exponents of powers stay small, so that few results leave the range.
    let y = (0..1 << 13).map(|_| argument(false)).map(|y| y.ln().abs().min(3.0)).collect();
    [x, y]
}

/// By how many units in the last place a number is off.
fn units(got: f32, exact: f64) -> f64 {
    let step = 2f64.powi((exact.abs().log2().floor() as i32).max(-126) - 23);
    let off = (f64::from(got) - exact).abs() / step;
    if off.is_nan() { f64::INFINITY } else { off }
}

fn accuracy(lab: &Lab, function: &Function) -> RowResult {
    let [x, y] = arguments(function);
    let got = lab.values(function.what, &x, &y)?;
    let mut worst = (0.0, 0.0f32);
    let mut counted = 0;
    for i in 0..x.len() {
        let exact = (function.exact)(f64::from(x[i]), f64::from(y[i]));
        // Subnormal results are another row's.
        if !(f64::from(f32::MIN_POSITIVE)..f64::from(f32::MAX)).contains(&exact.abs()) {
            continue;
        }
        counted += 1;
        let off = units(got[i], exact);
        if off > worst.0 {
            worst = (off, x[i]);
        }
    }
    let text = format!("at most {:.2} units, at {:e}, of {counted} values", worst.0, worst.1);
    compared(worst.0 <= function.units, text)
}

#[cfg(all(test, feature = "driver"))]
mod tests;
