//! What a cell makes of its gates, for one sequence at one step.

use millstream_core::RecurrentCell;

use crate::kernels::shared::math::functions::{relu, sigmoid};
use crate::kernels::shared::number::Float;
use crate::kernels::shared::simd::SimdFn;

/// One step of one sequence.
pub(super) struct CellUpdate<'a, F> {
    pub cell: RecurrentCell,
    /// Distance between the products of two gates.
    pub gate_stride: usize,
    /// Products with the input, and with the hidden state, of all gates; without biases.
    pub from_input: &'a [F],
    pub from_hidden: &'a [F],
    /// The biases of both.
    pub bias: [&'a [F]; 2],
    /// The hidden state, before and after.
    pub hidden: &'a mut [F],
    /// The cell state of an LSTM, before and after; of no use to others.
    pub state: &'a mut [F],
}

impl<F: Float> SimdFn for CellUpdate<'_, F> {
    #[inline(always)]
    fn run(self) {
        let size = self.hidden.len();
        let [input_bias, hidden_bias] = self.bias;
        let input = |gate: usize, i: usize| {
            self.from_input[gate * self.gate_stride + i] + input_bias[gate * size + i]
        };
        let recurrent = |gate: usize, i: usize| {
            self.from_hidden[gate * self.gate_stride + i] + hidden_bias[gate * size + i]
        };
        let both = |gate: usize, i: usize| input(gate, i) + recurrent(gate, i);
        match self.cell {
            RecurrentCell::Lstm => {
                for i in 0..size {
                    let (input_gate, output_gate) = (sigmoid(both(0, i)), sigmoid(both(1, i)));
                    let (forget_gate, cell_gate) = (sigmoid(both(2, i)), both(3, i).tanh());
                    let state = forget_gate * self.state[i] + input_gate * cell_gate;
                    self.state[i] = state;
                    self.hidden[i] = output_gate * state.tanh();
                }
            }
            RecurrentCell::Gru { linear_before_reset } => {
                for i in 0..size {
                    let update_gate = sigmoid(both(0, i));
                    let new_gate = if linear_before_reset {
                        (input(2, i) + sigmoid(both(1, i)) * recurrent(2, i)).tanh()
                    } else {
                        // The reset gate was applied to the hidden state before the product.
                        both(2, i).tanh()
                    };
                    self.hidden[i] =
                        (F::ONE - update_gate) * new_gate + update_gate * self.hidden[i];
                }
            }
            RecurrentCell::RnnTanh => {
                for i in 0..size {
                    self.hidden[i] = both(0, i).tanh();
                }
            }
            RecurrentCell::RnnRelu => {
                for i in 0..size {
                    self.hidden[i] = relu(both(0, i));
                }
            }
        }
    }
}

/// The hidden state behind the reset gate of a GRU.
pub(super) struct Reset<'a, F> {
    /// Products of the reset gate with the input and with the hidden state.
    pub products: [&'a [F]; 2],
    /// Their biases.
    pub bias: [&'a [F]; 2],
    /// None where the sums themselves are wanted.
    pub hidden: Option<&'a [F]>,
    pub to: &'a mut [F],
}

impl<F: Float> SimdFn for Reset<'_, F> {
    #[inline(always)]
    fn run(self) {
        let ([input, hidden], [input_bias, hidden_bias]) = (self.products, self.bias);
        for (i, to) in self.to.iter_mut().enumerate() {
            *to = (input[i] + input_bias[i]) + (hidden[i] + hidden_bias[i]);
        }
        if let Some(hidden) = self.hidden {
            for (to, &hidden) in self.to.iter_mut().zip(hidden) {
                *to = sigmoid(*to) * hidden;
            }
        }
    }
}
