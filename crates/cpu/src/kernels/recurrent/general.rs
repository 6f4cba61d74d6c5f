//! What a cell makes of its gates in a layer that differs from the usual one: gate by gate, so that each
//! activation is a loop of its own.

use millstream_core::{RecurrentActivation, RecurrentCell};

use super::cell::CellUpdate;
use crate::kernels::shared::math::functions::{clip, elu, leaky_relu, relu, sigmoid, softplus};
use crate::kernels::shared::number::Float;
use crate::kernels::shared::simd::SimdFn;

/// How a layer differs, in the type that is computed in.
#[derive(Clone, Copy)]
pub(super) struct Variant<'a, F> {
    pub activations: [RecurrentActivation; 3],
    pub clip: Option<F>,
    pub input_forget: bool,
    /// Of input, output and forget gate.
    pub peepholes: Option<&'a [F]>,
}

impl<F: Float> Variant<'_, F> {
    /// Limits sums and takes one of the activations of them.
    #[inline(always)]
    fn activate(&self, which: usize, values: &mut [F]) {
        if let Some(limit) = self.clip {
            each(values, |x| clip(x, -limit, limit));
        }
        activate(self.activations[which], values);
    }
}

#[inline(always)]
fn each<F: Float>(values: &mut [F], function: impl Fn(F) -> F) {
    values.iter_mut().for_each(|value| *value = function(*value));
}

#[inline(always)]
fn activate<F: Float>(activation: RecurrentActivation, values: &mut [F]) {
    use RecurrentActivation::*;
    let (_, alpha, beta) = activation.parts();
    let (alpha, beta) = (F::from_f32(alpha), F::from_f32(beta));
    match activation {
        Relu => each(values, relu),
        Tanh => each(values, F::tanh),
        Sigmoid => each(values, sigmoid),
        Affine { .. } => each(values, |x| alpha * x + beta),
        LeakyRelu { .. } => each(values, |x| leaky_relu(x, alpha)),
        ThresholdedRelu { .. } => each(values, |x| if x < alpha { F::ZERO } else { x }),
        ScaledTanh { .. } => each(values, |x| alpha * (beta * x).tanh()),
        HardSigmoid { .. } => each(values, |x| clip(alpha * x + beta, F::ZERO, F::ONE)),
        Elu { .. } => each(values, |x| elu(x, alpha)),
        Softsign => each(values, |x| x / (F::ONE + x.abs())),
        Softplus => each(values, softplus),
    }
}

/// Adds what a gate gets from the cell state through its peephole.
#[inline(always)]
fn add_peephole<F: Float>(sums: &mut [F], peephole: &[F], state: &[F]) {
    for ((sum, &by), &state) in sums.iter_mut().zip(peephole).zip(state) {
        *sum += by * state;
    }
}

/// One step of one sequence. Products with the hidden state are what the gates become.
pub(super) struct GeneralCellUpdate<'a, F> {
    pub update: CellUpdate<'a, F>,
    pub variant: Variant<'a, F>,
    /// As many numbers as there are products of the hidden state.
    pub gates: &'a mut [F],
}

impl<F: Float> SimdFn for GeneralCellUpdate<'_, F> {
    #[inline(always)]
    fn run(self) {
        let GeneralCellUpdate { update, variant, gates } = self;
        let CellUpdate { cell, gate_stride, from_input, from_hidden, bias, hidden, state } = update;
        let size = hidden.len();
        let [input_bias, hidden_bias] = bias;
        let input = |gate_index: usize, i: usize| {
            from_input[gate_index * gate_stride + i] + input_bias[gate_index * size + i]
        };
        let recurrent = |gate_index: usize, i: usize| {
            from_hidden[gate_index * gate_stride + i] + hidden_bias[gate_index * size + i]
        };
        let sums = |gate_index: usize, to: &mut [F]| {
            for (i, to) in to.iter_mut().enumerate() {
                *to = input(gate_index, i) + recurrent(gate_index, i);
            }
        };
        let (first, rest) = gates.split_at_mut(gate_stride);
        let first = &mut first[..size];
        sums(0, first);
        match cell {
            RecurrentCell::Lstm => {
                let input_gate = first;
                let (output_gate, rest) = rest.split_at_mut(gate_stride);
                let (forget_gate, cell_gate) = rest.split_at_mut(gate_stride);
                let (output_gate, forget_gate, cell_gate) =
                    (&mut output_gate[..size], &mut forget_gate[..size], &mut cell_gate[..size]);
                sums(1, output_gate);
                sums(2, forget_gate);
                sums(3, cell_gate);
                if let Some(peepholes) = variant.peepholes {
                    add_peephole(input_gate, &peepholes[..size], state);
                    add_peephole(forget_gate, &peepholes[2 * size..], state);
                }
                variant.activate(0, input_gate);
                if variant.input_forget {
                    forget_gate
                        .iter_mut()
                        .zip(&*input_gate)
                        .for_each(|(to, &from)| *to = F::ONE - from);
                } else {
                    variant.activate(0, forget_gate);
                }
                variant.activate(1, cell_gate);
                for i in 0..size {
                    state[i] = forget_gate[i] * state[i] + input_gate[i] * cell_gate[i];
                }
                if let Some(peepholes) = variant.peepholes {
                    add_peephole(output_gate, &peepholes[size..2 * size], state);
                }
                variant.activate(0, output_gate);
                cell_gate.copy_from_slice(state);
                activate(variant.activations[2], cell_gate);
                for i in 0..size {
                    hidden[i] = output_gate[i] * cell_gate[i];
                }
            }
            RecurrentCell::Gru { linear_before_reset } => {
                let update_gate = first;
                let (reset_gate, new_gate) = rest.split_at_mut(gate_stride);
                let (reset_gate, new_gate) = (&mut reset_gate[..size], &mut new_gate[..size]);
                variant.activate(0, update_gate);
                if linear_before_reset {
                    sums(1, reset_gate);
                    variant.activate(0, reset_gate);
                    for i in 0..size {
                        new_gate[i] = input(2, i) + reset_gate[i] * recurrent(2, i);
                    }
                } else {
                    // The reset gate was applied to the hidden state before the product.
                    sums(2, new_gate);
                }
                variant.activate(1, new_gate);
                for i in 0..size {
                    hidden[i] =
                        (F::ONE - update_gate[i]) * new_gate[i] + update_gate[i] * hidden[i];
                }
            }
            RecurrentCell::RnnTanh | RecurrentCell::RnnRelu => {
                variant.activate(0, first);
                hidden.copy_from_slice(first);
            }
        }
    }
}

/// The hidden state behind the reset gate of a GRU, of which `to` has the sums.
pub(super) struct GeneralReset<'a, F> {
    pub variant: Variant<'a, F>,
    pub hidden: &'a [F],
    pub to: &'a mut [F],
}

impl<F: Float> SimdFn for GeneralReset<'_, F> {
    #[inline(always)]
    fn run(self) {
        self.variant.activate(0, self.to);
        self.to.iter_mut().zip(self.hidden).for_each(|(to, &hidden)| *to = *to * hidden);
    }
}
