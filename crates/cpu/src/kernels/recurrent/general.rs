//! What a cell makes of its gates in a layer that differs from the usual one: gate by gate, so that each
//! activation is a loop of its own.

use millstream_core::{RecurrentActivation, RecurrentCell};

use super::cell::Step;
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

/// Adds what a gate sees of the cell state.
#[inline(always)]
fn look<F: Float>(sums: &mut [F], peephole: &[F], state: &[F]) {
    for ((sum, &by), &state) in sums.iter_mut().zip(peephole).zip(state) {
        *sum += by * state;
    }
}

/// One step of one sequence. Products with the hidden state are what the gates become.
pub(super) struct GeneralStep<'a, F> {
    pub step: Step<'a, F>,
    pub variant: Variant<'a, F>,
    /// As many numbers as there are products of the hidden state.
    pub gates: &'a mut [F],
}

impl<F: Float> SimdFn for GeneralStep<'_, F> {
    #[inline(always)]
    fn run(self) {
        let GeneralStep { step, variant, gates } = self;
        let Step { cell, gate, from_input, from_hidden, bias, hidden, state } = step;
        let size = hidden.len();
        let [input_bias, hidden_bias] = bias;
        let input = |gate_index: usize, i: usize| {
            from_input[gate_index * gate + i] + input_bias[gate_index * size + i]
        };
        let recurrent = |gate_index: usize, i: usize| {
            from_hidden[gate_index * gate + i] + hidden_bias[gate_index * size + i]
        };
        let sums = |gate_index: usize, to: &mut [F]| {
            for (i, to) in to.iter_mut().enumerate() {
                *to = input(gate_index, i) + recurrent(gate_index, i);
            }
        };
        let (first, rest) = gates.split_at_mut(gate);
        let first = &mut first[..size];
        sums(0, first);
        match cell {
            RecurrentCell::Lstm => {
                let (leave, rest) = rest.split_at_mut(gate);
                let (forget, new) = rest.split_at_mut(gate);
                let (leave, forget, new) =
                    (&mut leave[..size], &mut forget[..size], &mut new[..size]);
                sums(1, leave);
                sums(2, forget);
                sums(3, new);
                if let Some(peepholes) = variant.peepholes {
                    look(first, &peepholes[..size], state);
                    look(forget, &peepholes[2 * size..], state);
                }
                variant.activate(0, first);
                if variant.input_forget {
                    forget.iter_mut().zip(&*first).for_each(|(to, &from)| *to = F::ONE - from);
                } else {
                    variant.activate(0, forget);
                }
                variant.activate(1, new);
                for i in 0..size {
                    state[i] = forget[i] * state[i] + first[i] * new[i];
                }
                if let Some(peepholes) = variant.peepholes {
                    look(leave, &peepholes[size..2 * size], state);
                }
                variant.activate(0, leave);
                new.copy_from_slice(state);
                activate(variant.activations[2], new);
                for i in 0..size {
                    hidden[i] = leave[i] * new[i];
                }
            }
            RecurrentCell::Gru { linear_before_reset } => {
                let (reset, new) = rest.split_at_mut(gate);
                let (reset, new) = (&mut reset[..size], &mut new[..size]);
                variant.activate(0, first);
                if linear_before_reset {
                    sums(1, reset);
                    variant.activate(0, reset);
                    for i in 0..size {
                        new[i] = input(2, i) + reset[i] * recurrent(2, i);
                    }
                } else {
                    // The reset gate was applied to the hidden state before the product.
                    sums(2, new);
                }
                variant.activate(1, new);
                for i in 0..size {
                    hidden[i] = (F::ONE - first[i]) * new[i] + first[i] * hidden[i];
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
