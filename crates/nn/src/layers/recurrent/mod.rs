//! Recurrent layers.

mod parameters;

use millstream_core::{Command, LayerName, Layout, Operand, Recurrent, RecurrentCell};

use self::parameters::{Layer, layers};
use super::Module;
use crate::error::invalid;
use crate::tensor::{OpRecorder, some};
use crate::{Error, Result, Tensor, Weights};

/// The options of recurrent layers, with PyTorch's defaults.
#[derive(Clone, Copy, Debug)]
pub struct RecurrentOptions {
    /// How many layers lie on each other.
    pub num_layers: usize,
    /// Whether there are biases.
    pub bias: bool,
    /// Whether sequences are `[batch, time, features]` rather than `[time, batch, features]`.
    pub batch_first: bool,
    /// Whether each layer also runs from the end.
    pub bidirectional: bool,
}

impl Default for RecurrentOptions {
    fn default() -> Self {
        Self { num_layers: 1, bias: true, batch_first: false, bidirectional: false }
    }
}

/// The states of a recurrent layer: `[num_layers · directions, batch, hidden_size]`, without the batch where
/// the input has none.
#[derive(Clone, Debug)]
pub struct RecurrentState {
    /// The hidden states.
    pub hidden: Tensor,
    /// The cell states of an LSTM.
    pub cell: Option<Tensor>,
}

impl RecurrentState {
    fn map(&self, change: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Self> {
        let cell = self.cell.as_ref().map(&change).transpose()?;
        Ok(Self { hidden: change(&self.hidden)?, cell })
    }
}

/// What LSTM, GRU and RNN have in common; each layer is one Command.
struct Stack {
    layers: Vec<Layer>,
    cell: RecurrentCell,
    options: RecurrentOptions,
    name: LayerName,
}

impl Stack {
    fn forward(
        &self,
        input: &Tensor,
        state: Option<&RecurrentState>,
    ) -> Result<(Tensor, RecurrentState)> {
        let _layer = self.name.enter();
        if input.rank() == 2 {
            let batch_axis = usize::from(!self.options.batch_first);
            let state = state.map(|state| state.map(|tensor| tensor.unsqueeze(1))).transpose()?;
            let (output, state) = self.forward(&input.unsqueeze(batch_axis)?, state.as_ref())?;
            return Ok((output.squeeze(batch_axis)?, state.map(|tensor| tensor.squeeze(1))?));
        }
        if input.rank() != 3 {
            return invalid("recurrent", format!("input {:?} needs 3 axes", input.shape()));
        }
        let recorder = OpRecorder::new("recurrent", &input.device())?;
        let batch_first = self.options.batch_first;
        let mut sequence = if batch_first { input.transpose(0, 1)? } else { input.clone() };
        let lstm = self.cell == RecurrentCell::Lstm;
        // All layers make the same of their inputs, but for where they keep their states.
        let first = &self.layers[0];
        let made = recorder.infer(
            &first.op(self.cell),
            &some([
                Some(&sequence),
                Some(&first.input_weight),
                Some(&first.hidden_weight),
                first.bias.as_ref(),
            ]),
        )?;
        let [time, directions, batch, size] = std::array::from_fn(|axis| made[0].shape()[axis]);
        let states = [self.layers.len() * directions, batch, size];
        let hidden = recorder.output(input.dtype(), &states)?;
        let cell = lstm.then(|| recorder.output(input.dtype(), &states)).transpose()?;
        let initial_hidden = state.map(|state| &state.hidden);
        let initial_cell = state.and_then(|state| state.cell.as_ref());
        for (index, layer) in self.layers.iter().enumerate() {
            let own = |tensor: &Tensor| tensor.narrow(0, index * directions, directions);
            let own_hidden = own(&hidden)?;
            let own_cell = cell.as_ref().map(own).transpose()?;
            let first_hidden = initial_hidden.map(own).transpose()?;
            let first_cell = initial_cell.map(own).transpose()?;
            let (outer, inner) = if batch_first { (batch, time) } else { (time, batch) };
            let output = recorder.output(input.dtype(), &[outer, inner, directions * size])?;
            let step = directions * size;
            let (by_time, by_batch) =
                if batch_first { (step, time * step) } else { (batch * step, step) };
            let layout = Layout::strided(
                input.dtype(),
                &[time, directions, batch, size],
                &[by_time, size, by_batch, 1],
                0,
            );
            let layout = layout.map_err(|error| Error::named("recurrent", error))?;
            recorder.record(Command::recurrent(Recurrent {
                cell: self.cell,
                direction: layer.direction,
                sequence: Operand::new(output.buffer(), layout),
                last_hidden: own_hidden.operand(),
                last_cell: own_cell.as_ref().map(Tensor::operand),
                src: sequence.operand(),
                input_weight: layer.input_weight.operand(),
                hidden_weight: layer.hidden_weight.operand(),
                bias: layer.bias.as_ref().map(Tensor::operand),
                initial_hidden: first_hidden.as_ref().map(Tensor::operand),
                initial_cell: first_cell.as_ref().map(Tensor::operand),
                lengths: None,
            }))?;
            sequence = if batch_first { output.transpose(0, 1)? } else { output };
        }
        let output = if batch_first { sequence.transpose(0, 1)? } else { sequence };
        Ok((output, RecurrentState { hidden, cell }))
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident $cell:expr),* $(,)?) => {
        $(
            $(#[$doc])*
            ///
            /// Parameters per layer `k`, each also with `_reverse` if `bidirectional`: `weight_ih_lk`,
            /// `weight_hh_lk`, `bias_ih_lk`, `bias_hh_lk`, with PyTorch's order of gates.
            pub struct $name(Stack);

            impl $name {
                /// Takes the parameters.
                ///
                /// # Errors
                ///
                /// No layers, weights that are missing or of another shape, or no memory.
                pub fn new(
                    input_size: usize,
                    hidden_size: usize,
                    options: RecurrentOptions,
                    weights: &Weights,
                ) -> Result<Self> {
                    let layers = layers($cell, input_size, hidden_size, &options, weights)?;
                    let name = weights.layer_name(stringify!($name));
                    Ok(Self(Stack { layers, cell: $cell, options, name }))
                }

                /// The output of every step of the last layer, and the last states of all layers. States
                /// start from those given, else from zeros.
                ///
                /// # Errors
                ///
                /// An input or states of the wrong shape or type, or no memory.
                pub fn forward_state(
                    &self,
                    input: &Tensor,
                    state: Option<&RecurrentState>,
                ) -> Result<(Tensor, RecurrentState)> {
                    self.0.forward(input, state)
                }
            }

            impl Module for $name {
                fn forward(&self, input: &Tensor) -> Result<Tensor> {
                    Ok(self.0.forward(input, None)?.0)
                }
            }
        )*
    };
}

kinds! {
    /// Long short-term memory.
    LSTM RecurrentCell::Lstm,
    /// Gated recurrent units.
    GRU RecurrentCell::Gru { linear_before_reset: true },
    /// Plain recurrent units with tanh.
    RNN RecurrentCell::RnnTanh,
}
