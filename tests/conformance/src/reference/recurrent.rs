//! Recurrent layers, with the errors that a device may make carried from step to step.

use millstream_core::{DType, RecurrentCell, RecurrentDirection, RecurrentParams};

use super::near;
use crate::accuracy::{elementary, smallest, sum, unit};
use crate::{Dense, Expected};

/// A number and how far off it may be.
#[derive(Clone, Copy)]
struct Rough {
    value: f64,
    error: f64,
}

impl Rough {
    fn exact(value: f64) -> Self {
        Rough { value, error: 0.0 }
    }

    /// The result of a function that is nowhere steeper than `slope`.
    fn through(self, dtype: DType, slope: f64, function: impl Fn(f64) -> f64) -> Self {
        let value = function(self.value);
        Rough { value, error: slope * self.error + elementary(dtype, value) }
    }

    fn sigmoid(self, dtype: DType) -> Self {
        self.through(dtype, 0.25, |x| 1.0 / (1.0 + (-x).exp()))
    }

    fn tanh(self, dtype: DType) -> Self {
        self.through(dtype, 1.0, f64::tanh)
    }

    fn plus(self, other: Self, dtype: DType) -> Self {
        let value = self.value + other.value;
        let rounding = unit(dtype) * (self.value.abs() + other.value.abs());
        Rough { value, error: self.error + other.error + rounding }
    }

    fn times(self, other: Self, dtype: DType) -> Self {
        let value = self.value * other.value;
        let error = self.error * (other.value.abs() + other.error)
            + other.error * self.value.abs()
            + unit(dtype) * value.abs();
        Rough { value, error }
    }
}

struct Weights<'a> {
    dtype: DType,
    hidden: usize,
    direction: usize,
    input: &'a Dense,
    recurrent: &'a Dense,
    bias: Option<&'a Dense>,
}

impl Weights<'_> {
    /// The product of a row of a weight with a vector, and its bias.
    fn product(&self, weight: &Dense, which: usize, row: usize, vector: &[Rough]) -> Rough {
        let (rows, depth) = (weight.shape[1], weight.shape[2]);
        let (mut value, mut magnitude, mut error) = (0.0, 0.0, 0.0);
        for (at, x) in vector.iter().enumerate() {
            let weight = weight.values[(self.direction * rows + row) * depth + at].as_f64();
            value += weight * x.value;
            magnitude += (weight * x.value).abs();
            error += weight.abs() * x.error;
        }
        let product = Rough { value, error: error + sum(self.dtype, depth, magnitude) };
        let bias = self
            .bias
            .map_or(0.0, |bias| bias.values[(self.direction * 2 + which) * rows + row].as_f64());
        product.plus(Rough::exact(bias), self.dtype)
    }

    fn step(&self, cell: RecurrentCell, x: &[Rough], h: &[Rough], c: &mut [Rough]) -> Vec<Rough> {
        let dtype = self.dtype;
        let from_input =
            |gate: usize, i: usize| self.product(self.input, 0, gate * self.hidden + i, x);
        let from_hidden = |gate: usize, i: usize, h: &[Rough]| {
            self.product(self.recurrent, 1, gate * self.hidden + i, h)
        };
        let gate = |gate: usize, i: usize| from_input(gate, i).plus(from_hidden(gate, i, h), dtype);
        let reset: Vec<Rough> = match cell {
            RecurrentCell::Gru { .. } => {
                (0..self.hidden).map(|i| gate(1, i).sigmoid(dtype)).collect()
            }
            _ => Vec::new(),
        };
        let behind: Vec<Rough> =
            reset.iter().zip(h).map(|(reset, h)| reset.times(*h, dtype)).collect();
        let one = |i: usize, c: &mut [Rough]| match cell {
            RecurrentCell::Lstm => {
                let new = gate(0, i).sigmoid(dtype).times(gate(3, i).tanh(dtype), dtype);
                c[i] = gate(2, i).sigmoid(dtype).times(c[i], dtype).plus(new, dtype);
                gate(1, i).sigmoid(dtype).times(c[i].tanh(dtype), dtype)
            }
            RecurrentCell::Gru { linear_before_reset } => {
                let second = match linear_before_reset {
                    true => reset[i].times(from_hidden(2, i, h), dtype),
                    false => from_hidden(2, i, &behind),
                };
                let new = from_input(2, i).plus(second, dtype).tanh(dtype);
                let update = gate(0, i).sigmoid(dtype);
                let rest = Rough { value: 1.0 - update.value, ..update };
                rest.times(new, dtype).plus(update.times(h[i], dtype), dtype)
            }
            RecurrentCell::RnnTanh => gate(0, i).tanh(dtype),
            RecurrentCell::RnnRelu => gate(0, i).through(dtype, 1.0, |x| x.max(0.0)),
        };
        (0..self.hidden).map(|i| one(i, c)).collect()
    }
}

/// The expected sequence, last hidden states, and last cell states of an LSTM, one after the other.
pub(super) fn apply(params: &RecurrentParams, inputs: &[Dense]) -> Vec<Expected> {
    let (src, input, recurrent) = (&inputs[0], &inputs[1], &inputs[2]);
    let (time, batch, size) = (src.shape[0], src.shape[1], src.shape[2]);
    let (hidden, directions) = (recurrent.shape[2], params.direction.count());
    let mut rest = inputs[3..].iter();
    let mut take = |given: bool| given.then(|| rest.next().expect("an operand"));
    let (bias, first, first_cell) =
        (take(params.bias), take(params.initial_hidden), take(params.initial_cell));
    let lengths = take(params.lengths);

    let zero = Rough::exact(0.0);
    let mut sequence = vec![zero; time * directions * batch * hidden];
    let (mut last, mut cells) = (Vec::new(), Vec::new());
    for (direction, row) in (0..directions).flat_map(|d| (0..batch).map(move |b| (d, b))) {
        let reverse = direction == 1 || params.direction == RecurrentDirection::Reverse;
        let weights = Weights { dtype: src.dtype, hidden, direction, input, recurrent, bias };
        let numbers = |dense: &Dense, place: usize, count: usize| -> Vec<Rough> {
            dense.values[place..][..count].iter().map(|x| Rough::exact(x.as_f64())).collect()
        };
        let start = |dense: Option<&Dense>| match dense {
            Some(dense) => numbers(dense, (direction * batch + row) * hidden, hidden),
            None => vec![zero; hidden],
        };
        let (mut h, mut c) = (start(first), start(first_cell));
        let length = lengths
            .map_or(time, |lengths| lengths.values[row].as_i64().clamp(0, time as i64) as usize);
        for step in 0..length {
            let at = if reverse { length - 1 - step } else { step };
            let x = numbers(src, (at * batch + row) * size, size);
            h = weights.step(params.cell, &x, &h, &mut c);
            let place = ((at * directions + direction) * batch + row) * hidden;
            sequence[place..][..hidden].copy_from_slice(&h);
        }
        last.extend(h);
        cells.extend(c);
    }
    if params.cell != RecurrentCell::Lstm {
        cells.clear();
    }
    let bound = |x: Rough| near(x.value, 2.0 * x.error + smallest(src.dtype));
    sequence.into_iter().chain(last).chain(cells).map(bound).collect()
}
