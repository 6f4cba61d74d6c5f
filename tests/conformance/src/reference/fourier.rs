//! Fourier transforms, by their definition.

use super::near;
use crate::accuracy::{smallest, unit};
use crate::{Dense, Expected};

type Complex = (f64, f64);

/// The transform of some numbers and the bound of each of its elements.
fn line(numbers: &[Complex], inverse: bool) -> (Vec<Complex>, f64) {
    let length = numbers.len();
    let (sign, share) = if inverse { (1.0, 1.0 / length as f64) } else { (-1.0, 1.0) };
    let root = |at: usize| (sign * std::f64::consts::TAU * at as f64 / length as f64).sin_cos();
    let roots: Vec<Complex> = (0..length).map(root).collect();
    let one = |output: usize| {
        let mut sum = (0.0, 0.0);
        for (at, (re, im)) in numbers.iter().enumerate() {
            let (sin, cos) = roots[output * at % length];
            sum = (sum.0 + re * cos - im * sin, sum.1 + re * sin + im * cos);
        }
        (sum.0 * share, sum.1 * share)
    };
    let magnitude: f64 = numbers.iter().map(|(re, im)| re.abs() + im.abs()).sum();
    // A few roundings for each halving of the length, and as many again by way of a convolution.
    let steps = 16.0 + 8.0 * (length as f64).log2();
    ((0..length).map(one).collect(), steps * magnitude * share)
}

fn push(expected: &mut Vec<Expected>, (re, im): Complex, parts: usize, bound: f64) {
    expected.push(near(re, bound));
    if parts == 2 {
        expected.push(near(im, bound));
    }
}

pub(super) fn transform(
    axis: usize,
    inverse: bool,
    onesided: bool,
    input: &Dense,
    shape: &[usize],
) -> Vec<Expected> {
    let last = shape.len() - 1;
    let (from_parts, to_parts) = (input.shape[last], shape[last]);
    let (inputs, outputs) = (input.shape[axis], shape[axis]);
    let inner: usize = shape[axis + 1..last].iter().product();
    let outer: usize = shape[..axis].iter().product();
    let mut results = vec![Vec::new(); outer * outputs * inner];
    for (block, column) in (0..outer).flat_map(|b| (0..inner).map(move |c| (b, c))) {
        let number = |at: usize| {
            let place = ((block * inputs + at) * inner + column) * from_parts;
            let im = if from_parts == 2 { input.values[place + 1].as_f64() } else { 0.0 };
            (input.values[place].as_f64(), im)
        };
        let mut numbers: Vec<Complex> = (0..inputs).map(number).collect();
        if inverse && onesided {
            // The other half mirrors this one; where a number is its own mirror image it is real.
            numbers[0].1 = 0.0;
            if outputs % 2 == 0 {
                numbers[outputs / 2].1 = 0.0;
            }
            for at in inputs..outputs {
                let (re, im) = numbers[outputs - at];
                numbers.push((re, -im));
            }
        }
        let (transformed, bound) = line(&numbers, inverse);
        let bound = bound * unit(input.dtype) + smallest(input.dtype);
        for (at, &number) in transformed[..outputs].iter().enumerate() {
            let place = (block * outputs + at) * inner + column;
            push(&mut results[place], number, to_parts, bound);
        }
    }
    results.concat()
}

pub(super) fn frames(
    frame: usize,
    hop: usize,
    signal: &Dense,
    window: Option<&Dense>,
    shape: &[usize],
) -> Vec<Expected> {
    let (samples, parts) = (signal.shape[1], signal.shape[2]);
    let mut expected = Vec::new();
    for (batch, index) in (0..shape[0]).flat_map(|b| (0..shape[1]).map(move |i| (b, i))) {
        let number = |at: usize| {
            let factor = window.map_or(1.0, |window| window.values[at].as_f64());
            let place = (batch * samples + index * hop + at) * parts;
            let im = if parts == 2 { signal.values[place + 1].as_f64() } else { 0.0 };
            (signal.values[place].as_f64() * factor, im * factor)
        };
        let numbers: Vec<Complex> = (0..frame).map(number).collect();
        let (transformed, bound) = line(&numbers, false);
        let bound = bound * unit(signal.dtype) + smallest(signal.dtype);
        for &number in &transformed[..shape[2]] {
            push(&mut expected, number, 2, bound);
        }
    }
    expected
}
