//! Convolutions.

use millstream_core::{ConvParams, DType, Epilogue};

use super::activate;
use crate::accuracy::{sum, unit};
use crate::value::wrap;
use crate::{Dense, Expected, Value};

/// What is computed, with the shape of the output.
pub(super) struct Window<'a> {
    pub transposed: bool,
    pub params: &'a ConvParams,
    pub shape: &'a [usize],
}

/// A shape as batch, channels and three spatial axes.
fn five(shape: &[usize]) -> [usize; 5] {
    let missing = 5 - shape.len();
    std::array::from_fn(|axis| match axis {
        0 | 1 => shape[axis],
        _ if axis < 2 + missing => 1,
        _ => shape[axis - missing],
    })
}

fn place(shape: &[usize; 5], at: [usize; 5]) -> usize {
    at.iter().zip(shape).fold(0, |place, (at, size)| place * size + at)
}

/// All coordinates of three axes.
fn coordinates([a, b, c]: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    (0..a * b * c).map(move |index| [index / (b * c), index / c % b, index % c])
}

impl Window<'_> {
    /// Visits every product: `visit(place in the output, in the input, in the weight)`. A transposed
    /// convolution has the same products with input and output exchanged.
    fn products(
        &self,
        src: &[usize],
        weight: &[usize],
        mut visit: impl FnMut(usize, usize, usize),
    ) {
        let (to, from, by) = (five(self.shape), five(src), five(weight));
        let missing = 5 - self.shape.len();
        let number = |values: &[u32; 3], axis: usize, none: i64| match axis.checked_sub(missing) {
            Some(real) => i64::from(values[real]),
            None => none,
        };
        let (small, large) = if self.transposed { (from, to) } else { (to, from) };
        let groups = self.params.groups as usize;
        let (inputs, outputs) = (from[1] / groups, to[1] / groups);
        for batch in 0..to[0] {
            for group in 0..groups {
                for (input, output) in (0..inputs).flat_map(|i| (0..outputs).map(move |o| (i, o))) {
                    for near in coordinates([small[2], small[3], small[4]]) {
                        for tap in coordinates([by[2], by[3], by[4]]) {
                            let far: [i64; 3] = std::array::from_fn(|axis| {
                                near[axis] as i64 * number(&self.params.stride, axis, 1)
                                    + tap[axis] as i64 * number(&self.params.dilation, axis, 1)
                                    - number(&self.params.pad_before, axis, 0)
                            });
                            let inside =
                                (0..3).all(|axis| (0..large[axis + 2] as i64).contains(&far[axis]));
                            if !inside {
                                continue;
                            }
                            let far = far.map(|at| at as usize);
                            let (o, i) = if self.transposed { (far, near) } else { (near, far) };
                            let (oc, ic) = (group * outputs + output, group * inputs + input);
                            let first = if self.transposed { [ic, output] } else { [oc, input] };
                            visit(
                                place(&to, [batch, oc, o[0], o[1], o[2]]),
                                place(&from, [batch, ic, i[0], i[1], i[2]]),
                                place(&by, [first[0], first[1], tap[0], tap[1], tap[2]]),
                            );
                        }
                    }
                }
            }
        }
    }
}

/// A vector repeated over all axes of a shape but one.
pub(super) fn spread(vector: &Dense, shape: &[usize], axis: usize) -> Dense {
    let mut wide = vec![1; shape.len()];
    wide[axis] = vector.values.len();
    Dense { shape: wide, ..vector.clone() }.broadcast(shape)
}

/// `activation(scale · conv + bias + residual)`.
pub(super) fn apply(window: &Window, inputs: &[Dense], epilogue: Epilogue) -> Vec<Expected> {
    let Epilogue { scale, bias, residual, activation } = epilogue;
    let (src, weight, scale) = (&inputs[0], &inputs[1], f64::from(scale));
    let mut rest = inputs[2..].iter();
    let mut added: Vec<Dense> = Vec::new();
    if bias {
        added.push(spread(rest.next().expect("bias"), window.shape, 1));
    }
    if residual {
        added.push(rest.next().expect("residual").broadcast(window.shape));
    }
    let dtype = src.dtype;
    let count: usize = window.shape.iter().product();
    let mut totals = vec![(0.0, 0.0, 0); count];
    window.products(&src.shape, &weight.shape, |to, from, by| {
        let term = src.values[from].as_f64() * weight.values[by].as_f64();
        totals[to].0 += term;
        totals[to].1 += term.abs();
        totals[to].2 += 1;
    });
    let finish = |(at, &(total, magnitude, terms)): (usize, &(f64, f64, usize))| {
        let (mut value, mut around) = (scale * total, (scale * total).abs());
        for extra in &added {
            value += extra.values[at].as_f64();
            around += extra.values[at].as_f64().abs();
        }
        let error = sum(dtype, terms, scale.abs() * magnitude) + 4.0 * unit(dtype) * around;
        activate(activation, dtype, value, error)
    };
    totals.iter().enumerate().map(finish).collect()
}

/// The exact sums of differences from zero points.
pub(super) fn integers(
    window: &Window,
    inputs: &[Dense],
    src_zero: bool,
    weight_zero: bool,
) -> Vec<Expected> {
    let (src, weight) = (&inputs[0], &inputs[1]);
    let mut rest = inputs[2..].iter();
    let src_zero = if src_zero { rest.next().expect("zero").values[0].as_i128() } else { 0 };
    let zeros = weight_zero.then(|| rest.next().expect("zero").broadcast(&weight.shape[..1]));
    let row: usize = weight.shape[1..].iter().product();
    let mut totals = vec![0i128; window.shape.iter().product()];
    window.products(&src.shape, &weight.shape, |to, from, by| {
        let zero = zeros.as_ref().map_or(0, |zeros| zeros.values[by / row].as_i128());
        totals[to] +=
            (src.values[from].as_i128() - src_zero) * (weight.values[by].as_i128() - zero);
    });
    totals.into_iter().map(|total| Expected::Exact(Value::Int(wrap(DType::I32, total)))).collect()
}
