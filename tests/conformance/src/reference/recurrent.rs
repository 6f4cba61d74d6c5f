//! Recurrent layers, with the errors that a device may make carried from step to step.

use millstream_core::{
    DType, RecurrentActivation, RecurrentCell, RecurrentDirection, RecurrentParams,
    RecurrentVariant,
};

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
    peepholes: Option<&'a Dense>,
    /// Of 8-bit weights of the input and of the hidden state.
    scales: [Option<&'a Dense>; 2],
    zeros: [Option<&'a Dense>; 2],
    variant: RecurrentVariant,
    activations: [RecurrentActivation; 3],
}

/// A function that is nowhere steeper than what comes with it.
fn activation(kind: RecurrentActivation) -> (f64, impl Fn(f64) -> f64) {
    use RecurrentActivation::*;
    let (_, a, b) = kind.parts();
    let (a, b) = (f64::from(a), f64::from(b));
    let slope = match kind {
        Relu | Tanh | Softsign | Softplus | ThresholdedRelu { .. } => 1.0,
        Sigmoid => 0.25,
        Affine { .. } | HardSigmoid { .. } => a.abs(),
        LeakyRelu { .. } | Elu { .. } => a.abs().max(1.0),
        ScaledTanh { .. } => (a * b).abs(),
    };
    let function = move |x: f64| match kind {
        Relu => x.max(0.0),
        Tanh => x.tanh(),
        Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Affine { .. } => a * x + b,
        LeakyRelu { .. } => x * if x < 0.0 { a } else { 1.0 },
        ThresholdedRelu { .. } => {
            if x < a {
                0.0
            } else {
                x
            }
        }
        ScaledTanh { .. } => a * (b * x).tanh(),
        HardSigmoid { .. } => (a * x + b).clamp(0.0, 1.0),
        Elu { .. } => {
            if x < 0.0 {
                a * x.exp_m1()
            } else {
                x
            }
        }
        Softsign => x / (1.0 + x.abs()),
        Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
    };
    (slope, function)
}

/// The nearest of 256 numbers from the least to the largest, 0 among them. Where a number lies between two of them, a
/// device may take either.
fn round_to_bytes(state: &[Rough], dtype: DType) -> Vec<Rough> {
    let zero = Rough::exact(0.0);
    let least = state.iter().copied().fold(zero, |a, b| if b.value < a.value { b } else { a });
    let most = state.iter().copied().fold(zero, |a, b| if b.value > a.value { b } else { a });
    let step = (most.value - least.value) / 255.0;
    if step == 0.0 {
        return state.iter().map(|x| Rough { value: 0.0, ..*x }).collect();
    }
    // Of the range, and so of the step, by part.
    let off = 4.0 * unit(dtype) + (most.error + least.error) / (255.0 * step);
    let nearest = |x: f64| {
        let near = x.round_ties_even();
        // How far it may be from where it is, against how far it is from the next.
        let tie = 0.5 - (x - near).abs();
        (near, tie)
    };
    let (below, zero_tie) = nearest(-least.value / step);
    // If the zero point may be another, what is cut off may be too.
    let cut = if zero_tie <= (-least.value / step) * off + 1e-6 { 1.0 } else { 0.0 };
    let mut rounded = Vec::new();
    for x in state {
        let (near, tie) = nearest(x.value / step);
        let limited = near.clamp(-below, 255.0 - below);
        let doubt = x.error / step + (x.value / step).abs() * off + 1e-6;
        let either = if tie <= doubt { 1.0 } else { 0.0 };
        let edge = if limited <= -below || limited >= 255.0 - below { cut } else { 0.0 };
        let value = limited * step;
        let error = step * (either + edge) + value.abs() * off;
        rounded.push(Rough { value, error });
    }
    rounded
}

impl Weights<'_> {
    /// The product of a row of a weight with a vector, and its bias.
    fn product(&self, weight: &Dense, which: usize, row: usize, vector: &[Rough]) -> Rough {
        let (rows, columns) = (weight.shape[1], weight.shape[2]);
        let (mut value, mut magnitude, mut error) = (0.0, 0.0, 0.0);
        let of_row = |dense: Option<&Dense>, other: f64| {
            let dense = dense.map(|dense| dense.broadcast(&[dense.shape[0], rows]));
            dense.map_or(other, |dense| dense.values[self.direction * rows + row].as_f64())
        };
        let (scale, zero) = (of_row(self.scales[which], 1.0), of_row(self.zeros[which], 0.0));
        for (at, x) in vector.iter().enumerate() {
            let weight = weight.values[(self.direction * rows + row) * columns + at].as_f64();
            let weight = (weight - zero) * scale;
            if self.variant.quantized {
                // Such a weight may be rounded before it is multiplied.
                error += unit(self.dtype) * (weight * x.value).abs();
            }
            value += weight * x.value;
            magnitude += (weight * x.value).abs();
            error += weight.abs() * x.error;
        }
        let product = Rough { value, error: error + sum(self.dtype, columns, magnitude) };
        let bias = self
            .bias
            .map_or(0.0, |bias| bias.values[(self.direction * 2 + which) * rows + row].as_f64());
        product.plus(Rough::exact(bias), self.dtype)
    }

    /// Activation `which` of a sum, which is limited first.
    fn gate_activation(&self, which: usize, x: Rough) -> Rough {
        let limit = self.variant.clip.map_or(f64::INFINITY, f64::from);
        self.activation(which, Rough { value: x.value.clamp(-limit, limit), ..x })
    }

    /// The same without a limit.
    fn activation(&self, which: usize, x: Rough) -> Rough {
        let (slope, function) = activation(self.activations[which]);
        // Below a threshold it is 0, and above it is not.
        if let RecurrentActivation::ThresholdedRelu { alpha } = self.activations[which] {
            let near_threshold = (x.value - f64::from(alpha)).abs() <= 2.0 * x.error;
            assert!(!near_threshold, "cases keep off the threshold");
        }
        let value = function(x.value);
        // Sums inside an activation lose digits of what they are made of.
        let (_, _, beta) = self.activations[which].parts();
        let inside = unit(self.dtype) * (x.value.abs() * slope + f64::from(beta).abs());
        Rough { value, error: slope * x.error + elementary(self.dtype, value) + 2.0 * inside }
    }

    /// What a gate sees of the cell state.
    fn peephole(&self, gate: usize, i: usize, c: Rough) -> Rough {
        let Some(peepholes) = self.peepholes else { return Rough::exact(0.0) };
        let at = (self.direction * 3 + gate) * self.hidden + i;
        Rough::exact(peepholes.values[at].as_f64()).times(c, self.dtype)
    }

    fn step(&self, cell: RecurrentCell, x: &[Rough], h: &[Rough], c: &mut [Rough]) -> Vec<Rough> {
        let dtype = self.dtype;
        let from_input =
            |gate: usize, i: usize| self.product(self.input, 0, gate * self.hidden + i, x);
        let rounded = self.variant.rounded.then(|| round_to_bytes(h, dtype));
        let from_hidden = |gate: usize, i: usize, h: &[Rough]| {
            let h = rounded.as_deref().unwrap_or(h);
            self.product(self.recurrent, 1, gate * self.hidden + i, h)
        };
        let gate = |gate: usize, i: usize| from_input(gate, i).plus(from_hidden(gate, i, h), dtype);
        let reset: Vec<Rough> = match cell {
            RecurrentCell::Gru { .. } => {
                (0..self.hidden).map(|i| self.gate_activation(0, gate(1, i))).collect()
            }
            _ => Vec::new(),
        };
        let reset_hidden: Vec<Rough> =
            reset.iter().zip(h).map(|(reset, h)| reset.times(*h, dtype)).collect();
        let one = |i: usize, c: &mut [Rough]| match cell {
            RecurrentCell::Lstm => {
                let gated = |which: usize, of: usize, c: Rough| {
                    self.gate_activation(0, gate(which, i).plus(self.peephole(of, i, c), dtype))
                };
                let input = gated(0, 0, c[i]);
                let forget = match self.variant.input_forget {
                    true => Rough { value: 1.0 - input.value, ..input },
                    false => gated(2, 2, c[i]),
                };
                let new = input.times(self.gate_activation(1, gate(3, i)), dtype);
                c[i] = forget.times(c[i], dtype).plus(new, dtype);
                gated(1, 1, c[i]).times(self.activation(2, c[i]), dtype)
            }
            RecurrentCell::Gru { linear_before_reset } => {
                let second = match linear_before_reset {
                    true => reset[i].times(from_hidden(2, i, h), dtype),
                    false => from_hidden(2, i, &reset_hidden),
                };
                let new = self.gate_activation(1, from_input(2, i).plus(second, dtype));
                let update = self.gate_activation(0, gate(0, i));
                let rest = Rough { value: 1.0 - update.value, ..update };
                rest.times(new, dtype).plus(update.times(h[i], dtype), dtype)
            }
            RecurrentCell::RnnTanh | RecurrentCell::RnnRelu => self.gate_activation(0, gate(0, i)),
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
    let variant = params.variant;
    let peepholes = take(variant.peepholes);
    let scales = [(); 2].map(|()| take(variant.quantized));
    let zeros = [(); 2].map(|()| take(variant.zeros));

    let zero = Rough::exact(0.0);
    let mut sequence = vec![zero; time * directions * batch * hidden];
    let (mut last, mut cells) = (Vec::new(), Vec::new());
    for (direction, row) in (0..directions).flat_map(|d| (0..batch).map(move |b| (d, b))) {
        let reverse = direction == 1 || params.direction == RecurrentDirection::Reverse;
        let usual = params.cell.activations();
        let weights = Weights {
            dtype: src.dtype,
            hidden,
            direction,
            input,
            recurrent,
            bias,
            peepholes,
            scales,
            zeros,
            variant,
            activations: variant.activations.map_or(usual, |all| all[direction]),
        };
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
