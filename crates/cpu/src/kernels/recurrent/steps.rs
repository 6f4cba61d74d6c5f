//! Runs one direction of some sequences.

use std::ops::Range;

use millstream_core::RecurrentCell;

use super::cell::{CellUpdate, Reset};
use super::general::{GeneralCellUpdate, GeneralReset, Variant};
use super::rounded::RoundToBytes;
use super::{Layer, SequenceGroup};
use crate::kernels::conv::read_run;
use crate::kernels::matmul::panels::{PanelElement, Product};
use crate::kernels::shared::fault::Result;
use crate::kernels::shared::number::{Float, StoredFloat};
use crate::kernels::shared::scratch::with_scratch;
use crate::kernels::shared::simd::{Isa, vectorized};

/// Rows of input that are multiplied at a time.
const INPUT_ROWS: usize = 32;

/// What a group works in.
struct Buffers<'a, F> {
    /// Packed weights of the input and of the hidden state. Every gate begins a panel.
    input_weight: &'a [F],
    hidden_weight: &'a [F],
    bias: [&'a [F]; 2],
    /// Input of some steps, and its products.
    input: &'a mut [F],
    from_input: &'a mut [F],
    from_hidden: &'a mut [F],
    hidden: &'a mut [F],
    /// The hidden state behind a reset gate, or rounded.
    reset: &'a mut [F],
    state: &'a mut [F],
    /// How the layer differs from the usual one, and the gates of a sequence of such a layer.
    variant: Option<Variant<'a, F>>,
    gates: &'a mut [F],
}

impl<T: StoredFloat<Compute: PanelElement>> Layer<'_, T> {
    /// # Safety
    ///
    /// As for [`run`](Self::run), and nobody else touches the group of the outputs.
    pub(super) unsafe fn group(&self, isa: Isa, group: SequenceGroup) -> Result {
        let width = T::Compute::width(isa);
        let (rows, count) = (self.rows(), group.count);
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
            if self.variant(group.direction, &[]).is_some() { stride } else { 0 },
        ];
        with_scratch(sizes, |buffers: [&mut [T::Compute]; 11]| {
            let [input_weight, hidden_weight, bias, rest @ ..] = buffers;
            let [input, from_input, from_hidden, hidden, reset, state, peepholes, gates] = rest;
            bias.fill(T::Compute::ZERO);
            // SAFETY: passed on; the buffers have the sizes of the weights and states.
            unsafe {
                let direction = group.direction;
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
                self.read_state(self.initial_hidden.as_ref(), group, hidden);
                self.read_state(self.initial_cell.as_ref(), group, state);
            }
            let (first, second) = bias.split_at(rows);
            let mut buffers = Buffers {
                input_weight,
                hidden_weight,
                bias: [first, second],
                input,
                from_input,
                from_hidden,
                hidden,
                reset,
                state,
                variant: self.variant(group.direction, peepholes),
                gates,
            };
            // SAFETY: passed on.
            unsafe {
                for step in (0..self.time).step_by(steps) {
                    let steps = steps.min(self.time - step);
                    self.project(isa, group, step..step + steps, stride, &mut buffers);
                    for index in 0..steps {
                        self.step(isa, group, (step, index), stride, &mut buffers);
                    }
                }
                self.write_state(&self.last_hidden, group, buffers.hidden);
                if let Some(last_cell) = &self.last_cell {
                    self.write_state(last_cell, group, buffers.state);
                }
            }
        })
    }

    /// Multiplies the input of some steps.
    unsafe fn project(
        &self,
        isa: Isa,
        group: SequenceGroup,
        steps: Range<usize>,
        stride: usize,
        buffers: &mut Buffers<'_, T::Compute>,
    ) {
        let rows = steps.len() * group.count;
        for row in 0..rows {
            let to = &mut buffers.input[row * self.input..][..self.input];
            let (step, sequence) =
                (steps.start + row / group.count, group.first + row % group.count);
            // SAFETY: passed on; the time is below the length of the sequence.
            unsafe {
                let length = self.length(sequence);
                if step < length {
                    let time = group.time_of(step, length);
                    read_run(self.src.at([time, sequence, 0]), self.src.strides[2], to);
                } else {
                    to.fill(T::Compute::ZERO);
                }
            }
        }
        let gates = 0..self.params.cell.gates();
        let (lhs, rhs) = (&*buffers.input, buffers.input_weight);
        // SAFETY: the buffers have the sizes of the products.
        unsafe { self.multiply(isa, rows, gates, (lhs, rhs), buffers.from_input, stride) };
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

    /// Takes all sequences of a group one step further. `index` is the step among those whose input was
    /// multiplied, from `first` on.
    unsafe fn step(
        &self,
        isa: Isa,
        group: SequenceGroup,
        (first, index): (usize, usize),
        stride: usize,
        buffers: &mut Buffers<'_, T::Compute>,
    ) {
        let (count, size, cell) = (group.count, self.hidden, self.params.cell);
        let gate = stride / cell.gates();
        let inputs = &buffers.from_input[index * count * stride..][..count * stride];
        let bias = buffers.bias;
        let reset_first = cell == RecurrentCell::Gru { linear_before_reset: false };
        let at_once = if reset_first { 0..2 } else { 0..cell.gates() };
        let rounded = self.params.variant.rounded;
        if rounded {
            // Only an LSTM has this, which has no reset gate.
            for (to, hidden) in
                buffers.reset.chunks_exact_mut(size).zip(buffers.hidden.chunks_exact(size))
            {
                vectorized(RoundToBytes { hidden, to });
            }
        }
        // SAFETY: the buffers have the sizes of the products.
        unsafe {
            let hidden = if rounded { &*buffers.reset } else { &*buffers.hidden };
            let operands = (hidden, buffers.hidden_weight);
            self.multiply(isa, count, at_once, operands, buffers.from_hidden, stride);
        }
        if reset_first {
            for sequence in 0..count {
                let from = sequence * stride + gate;
                let hidden = &buffers.hidden[sequence * size..][..size];
                let to = &mut buffers.reset[sequence * size..][..size];
                vectorized(Reset {
                    products: [&inputs[from..][..size], &buffers.from_hidden[from..][..size]],
                    bias: bias.map(|bias| &bias[size..][..size]),
                    hidden: buffers.variant.is_none().then_some(hidden),
                    to: &mut *to,
                });
                if let Some(variant) = buffers.variant {
                    vectorized(GeneralReset { variant, hidden, to });
                }
            }
            // SAFETY: as above.
            unsafe {
                let operands = (&*buffers.reset, buffers.hidden_weight);
                self.multiply(isa, count, 2..3, operands, buffers.from_hidden, stride);
            }
        }
        for sequence in 0..count {
            let hidden = &mut buffers.hidden[sequence * size..][..size];
            // SAFETY: passed on.
            unsafe {
                let length = self.length(group.first + sequence);
                let step = first + index;
                if step < length {
                    let one = CellUpdate {
                        cell,
                        gate_stride: gate,
                        from_input: &inputs[sequence * stride..][..stride],
                        from_hidden: &buffers.from_hidden[sequence * stride..][..stride],
                        bias,
                        hidden: &mut *hidden,
                        state: &mut buffers.state[sequence * size..][..size],
                    };
                    match buffers.variant {
                        None => vectorized(one),
                        Some(variant) => {
                            vectorized(GeneralCellUpdate {
                                update: one,
                                variant,
                                gates: &mut *buffers.gates,
                            });
                        }
                    }
                    self.write_step(group, group.time_of(step, length), sequence, hidden);
                } else {
                    // What a sequence leaves over is at the end in both directions.
                    self.write_zeros(group, step, sequence);
                }
            }
        }
    }
}
