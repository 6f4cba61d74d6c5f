//! Runs one direction of some sequences.

use std::ops::Range;

use millstream_core::RecurrentCell;

use super::cell::{CellUpdate, Reset};
use super::general::{GeneralCellUpdate, GeneralReset, Variant};
use super::{Layer, Part};
use crate::kernels::conv::read_run;
use crate::kernels::matmul::panels::{PanelElement, Product};
use crate::kernels::shared::fault::Result;
use crate::kernels::shared::number::{Float, StoredFloat};
use crate::kernels::shared::scratch::with_areas;
use crate::kernels::shared::simd::{Isa, vectorized};

/// Rows of input that are multiplied at a time.
const INPUT_ROWS: usize = 32;

/// What a part works in.
struct Areas<'a, F> {
    /// Packed weights of the input and of the hidden state. Every gate begins a panel.
    input_weight: &'a [F],
    hidden_weight: &'a [F],
    bias: [&'a [F]; 2],
    /// Input of some steps, and its products.
    input: &'a mut [F],
    from_input: &'a mut [F],
    from_hidden: &'a mut [F],
    hidden: &'a mut [F],
    /// The hidden state behind a reset gate.
    reset: &'a mut [F],
    state: &'a mut [F],
    /// How the layer differs from the usual one, and the gates of a sequence of such a layer.
    variant: Option<Variant<'a, F>>,
    gates: &'a mut [F],
}

impl<T: StoredFloat<Compute: PanelElement>> Layer<'_, T> {
    /// # Safety
    ///
    /// As for [`run`](Self::run), and nobody else touches the part of the outputs.
    pub(super) unsafe fn part(&self, isa: Isa, part: Part) -> Result {
        let width = T::Compute::width(isa);
        let (rows, count) = (self.rows(), part.count);
        let stride = self.params.cell.gates() * self.hidden.next_multiple_of(width);
        let steps = INPUT_ROWS.div_ceil(count);
        let sizes = [
            stride.saturating_mul(self.input),
            stride.saturating_mul(self.hidden),
            2 * rows,
            self.input.saturating_mul(steps * count),
            steps * count * stride,
            count * stride,
            count * self.hidden,
            count * self.hidden,
            count * self.hidden,
            if self.peepholes.is_some() { 3 * self.hidden } else { 0 },
            if self.variant(part.direction, &[]).is_some() { stride } else { 0 },
        ];
        with_areas(sizes, |areas: [&mut [T::Compute]; 11]| {
            let [input_weight, hidden_weight, bias, rest @ ..] = areas;
            let [input, from_input, from_hidden, hidden, reset, state, peepholes, gates] = rest;
            bias.fill(T::Compute::ZERO);
            // SAFETY: passed on; the areas have the sizes of the weights and states.
            unsafe {
                let direction = part.direction;
                let size = (self.hidden, width);
                self.input_weight.pack(direction, self.input, size, input_weight);
                self.hidden_weight.pack(direction, self.hidden, size, hidden_weight);
                if let Some(from) = &self.peepholes {
                    read_run(from.at([direction, 0, 0]), from.strides[1], peepholes);
                }
                if let Some(from) = &self.bias {
                    for (index, to) in bias.chunks_exact_mut(rows).enumerate() {
                        read_run(from.at([direction, index, 0]), from.strides[2], to);
                    }
                }
                self.read_state(self.initial_hidden.as_ref(), part, hidden);
                self.read_state(self.initial_cell.as_ref(), part, state);
            }
            let (first, second) = bias.split_at(rows);
            let mut areas = Areas {
                input_weight,
                hidden_weight,
                bias: [first, second],
                input,
                from_input,
                from_hidden,
                hidden,
                reset,
                state,
                variant: self.variant(part.direction, peepholes),
                gates,
            };
            // SAFETY: passed on.
            unsafe {
                for step in (0..self.time).step_by(steps) {
                    let steps = steps.min(self.time - step);
                    self.project(isa, part, step..step + steps, stride, &mut areas);
                    for index in 0..steps {
                        self.step(isa, part, (step, index), stride, &mut areas);
                    }
                }
                self.write_state(&self.last_hidden, part, areas.hidden);
                if let Some(last_cell) = &self.last_cell {
                    self.write_state(last_cell, part, areas.state);
                }
            }
        })
    }

    /// Multiplies the input of some steps.
    unsafe fn project(
        &self,
        isa: Isa,
        part: Part,
        steps: Range<usize>,
        stride: usize,
        areas: &mut Areas<'_, T::Compute>,
    ) {
        let rows = steps.len() * part.count;
        for row in 0..rows {
            let to = &mut areas.input[row * self.input..][..self.input];
            let (step, sequence) = (steps.start + row / part.count, part.first + row % part.count);
            // SAFETY: passed on; the time is below the length of the sequence.
            unsafe {
                let length = self.length(sequence);
                if step < length {
                    let time = part.time_of(step, length);
                    read_run(self.src.at([time, sequence, 0]), self.src.strides[2], to);
                } else {
                    to.fill(T::Compute::ZERO);
                }
            }
        }
        let gates = 0..self.params.cell.gates();
        let (lhs, rhs) = (&*areas.input, areas.input_weight);
        // SAFETY: the areas have the sizes of the products.
        unsafe { self.multiply(isa, rows, gates, (lhs, rhs), areas.from_input, stride) };
    }

    /// `sums = lhs × rhs` for some gates.
    ///
    /// # Safety
    ///
    /// The lhs has so many rows, and rows of sums are `stride` apart.
    unsafe fn multiply(
        &self,
        isa: Isa,
        rows: usize,
        gates: Range<usize>,
        (lhs, rhs): (&[T::Compute], &[T::Compute]),
        sums: &mut [T::Compute],
        stride: usize,
    ) {
        let width = T::Compute::width(isa);
        let k = rhs.len() / stride;
        let gate = self.hidden.next_multiple_of(width);
        let (first, columns) = (gates.start * gate, gates.len() * gate);
        for row in sums.chunks_exact_mut(stride).take(rows) {
            row[first..first + columns].fill(T::Compute::ZERO);
        }
        let product = Product {
            rows,
            columns,
            k,
            lhs: lhs.as_ptr(),
            lhs_row_stride: k,
            lhs_k_stride: 1,
            rhs: rhs[first * k..].as_ptr(),
            rhs_panel_stride: k * width,
            rhs_k_stride: width,
            sums: sums[first..].as_mut_ptr(),
            stride,
            begin: false,
        };
        // SAFETY: passed on.
        unsafe { product.run(isa) };
    }

    /// Takes all sequences of a part one step further. `index` is the step among those whose input was
    /// multiplied, from `first` on.
    unsafe fn step(
        &self,
        isa: Isa,
        part: Part,
        (first, index): (usize, usize),
        stride: usize,
        areas: &mut Areas<'_, T::Compute>,
    ) {
        let (count, size, cell) = (part.count, self.hidden, self.params.cell);
        let gate = stride / cell.gates();
        let inputs = &areas.from_input[index * count * stride..][..count * stride];
        let bias = areas.bias;
        let reset_first = cell == RecurrentCell::Gru { linear_before_reset: false };
        let at_once = if reset_first { 0..2 } else { 0..cell.gates() };
        // SAFETY: the areas have the sizes of the products.
        unsafe {
            let operands = (&*areas.hidden, areas.hidden_weight);
            self.multiply(isa, count, at_once, operands, areas.from_hidden, stride);
        }
        if reset_first {
            for sequence in 0..count {
                let from = sequence * stride + gate;
                let hidden = &areas.hidden[sequence * size..][..size];
                let to = &mut areas.reset[sequence * size..][..size];
                vectorized(Reset {
                    products: [&inputs[from..][..size], &areas.from_hidden[from..][..size]],
                    bias: bias.map(|bias| &bias[size..][..size]),
                    hidden: areas.variant.is_none().then_some(hidden),
                    to: &mut *to,
                });
                if let Some(variant) = areas.variant {
                    vectorized(GeneralReset { variant, hidden, to });
                }
            }
            // SAFETY: as above.
            unsafe {
                let operands = (&*areas.reset, areas.hidden_weight);
                self.multiply(isa, count, 2..3, operands, areas.from_hidden, stride);
            }
        }
        for sequence in 0..count {
            let hidden = &mut areas.hidden[sequence * size..][..size];
            // SAFETY: passed on.
            unsafe {
                let length = self.length(part.first + sequence);
                let step = first + index;
                if step < length {
                    let one = CellUpdate {
                        cell,
                        gate_stride: gate,
                        from_input: &inputs[sequence * stride..][..stride],
                        from_hidden: &areas.from_hidden[sequence * stride..][..stride],
                        bias,
                        hidden: &mut *hidden,
                        state: &mut areas.state[sequence * size..][..size],
                    };
                    match areas.variant {
                        None => vectorized(one),
                        Some(variant) => {
                            vectorized(GeneralCellUpdate {
                                update: one,
                                variant,
                                gates: &mut *areas.gates,
                            });
                        }
                    }
                    self.write_step(part, part.time_of(step, length), sequence, hidden);
                } else {
                    // What a sequence leaves over is at the end in both directions.
                    self.write_zeros(part, step, sequence);
                }
            }
        }
    }
}
