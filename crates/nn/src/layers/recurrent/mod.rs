//! Recurrent layers.

mod parameters;

use std::fmt;

use millstream_core::{Command, LayerName, Layout, Operand, Recurrent, RecurrentCell};

use self::parameters::{Layer, layers};
use super::check::{misfit, misfit_of, wants_dtype};
use super::describe::{described, python};
use super::{Description, Module};
use crate::error::{named, refused};
use crate::tensor::{OpRecorder, some};
use crate::{Result, Tensor, Weights};

/// The options of recurrent layers, with PyTorch's defaults.
#[derive(Clone, Copy, Debug)]
pub struct RecurrentOptions {
    /// The number of layers; each gets the output of the one before.
    pub num_layers: usize,
    /// Whether there are biases.
    pub bias: bool,
    /// Whether sequences are `[batch, time, features]` rather than `[time, batch, features]`.
    pub batch_first: bool,
    /// Whether each layer also runs backwards, from the end.
    pub bidirectional: bool,
}

impl Default for RecurrentOptions {
    fn default() -> Self {
        Self { num_layers: 1, bias: true, batch_first: false, bidirectional: false }
    }
}

/// The states of a recurrent layer: `[num_layers · directions, batch, hidden_size]`, without the batch if the
/// input has none.
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
struct Layers {
    layers: Vec<Layer>,
    cell: RecurrentCell,
    options: RecurrentOptions,
    name: LayerName,
}

impl Layers {
    /// Checks that input and states fit the layers.
    fn check(&self, input: &Tensor, state: Option<&RecurrentState>) -> Result<()> {
        let (layer, first) = (self.name.as_str(), &self.layers[0]);
        let (features, size) = (first.input_weight.shape()[2], first.hidden_weight.shape()[2]);
        if !matches!(input.rank(), 2 | 3) || input.shape().last() != Some(&features) {
            return self.other_input(input, features);
        }
        let count = self.layers.len() * first.direction.count();
        let batch = input.shape()[usize::from(!self.options.batch_first)];
        let states = [count, batch, size];
        let unbatched = [count, size];
        let states = if input.rank() == 3 { &states[..] } else { &unbatched[..] };
        wants_dtype(layer, input, first.input_weight.dtype())?;
        let Some(RecurrentState { hidden, cell }) = state else { return Ok(()) };
        if cell.is_some() && self.cell != RecurrentCell::Lstm {
            return refused(layer, "a cell state, which only an LSTM has".into());
        }
        let given = [("hidden state", Some(hidden)), ("cell state", cell.as_ref())];
        for (what, given) in given {
            if let Some(given) = given
                && (given.shape() != states || given.dtype() != input.dtype())
            {
                let takes = format!("takes {}{states:?}", input.dtype());
                return misfit_of(layer, what, given, &takes);
            }
        }
        Ok(())
    }

    fn describe(&self, kind: &'static str) -> Description {
        let RecurrentOptions { num_layers, bias, batch_first, bidirectional } = self.options;
        let (first, made) = (&self.layers[0], Description::new(kind));
        made.value(first.input_weight.shape()[2])
            .value(first.hidden_weight.shape()[2])
            .argument_if(num_layers != 1, "num_layers", num_layers)
            .argument_if(!bias, "bias", python(bias))
            .argument_if(batch_first, "batch_first", python(batch_first))
            .argument_if(bidirectional, "bidirectional", python(bidirectional))
    }

    #[cold]
    fn other_input<T>(&self, input: &Tensor, features: usize) -> Result<T> {
        let axes = if self.options.batch_first { "batch, time" } else { "time, batch" };
        let takes = match input.rank() {
            2 | 3 => format!("takes {features} features"),
            _ => format!("takes [{axes}, {features}] or [time, {features}]"),
        };
        misfit(self.name.as_str(), input, &takes)
    }

    fn forward(
        &self,
        input: &Tensor,
        state: Option<&RecurrentState>,
    ) -> Result<(Tensor, RecurrentState)> {
        let _layer = self.name.enter();
        self.check(input, state)?;
        if input.rank() == 2 {
            let batch_axis = usize::from(!self.options.batch_first);
            let state = state.map(|state| state.map(|tensor| tensor.unsqueeze(1))).transpose()?;
            let (output, state) = self.forward(&input.unsqueeze(batch_axis)?, state.as_ref())?;
            return Ok((output.squeeze(batch_axis)?, state.map(|tensor| tensor.squeeze(1))?));
        }
        let recorder = OpRecorder::new("recurrent", &input.device())?;
        let batch_first = self.options.batch_first;
        let mut sequence = if batch_first { input.transpose(0, 1)? } else { input.clone() };
        let lstm = self.cell == RecurrentCell::Lstm;
        // The outputs of all layers have the same shapes.
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
            let layout = layout.map_err(|error| named("recurrent", error))?;
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
            /// Parameters of layer `k`: `weight_ih_lk`, `weight_hh_lk`, `bias_ih_lk`, `bias_hh_lk`, with PyTorch's
            /// order of gates. If `bidirectional`, each is there with `_reverse` too.
            ///
            /// ```
            /// # millstream_nn::doctest!();
            #[doc = concat!("use millstream::nn::{Module, RecurrentOptions, Weights, ", stringify!($name), "};")]
            /// use millstream::{DType, Device, Tensor};
            ///
            /// let device = Device::cpu()?;
            /// let options = RecurrentOptions { batch_first: true, num_layers: 2, ..Default::default() };
            #[doc = concat!(
                "let layer = ", stringify!($name), "::new(8, 16, options, &Weights::random(1, DType::F32, &device))?;"
            )]
            /// let input = Tensor::randn(&[3, 10, 8], 1, DType::F32, &device)?; // [batch, time, features]
            /// assert_eq!(layer.forward(&input)?.shape(), [3, 10, 16]);
            ///
            /// let (_, state) = layer.forward_state(&input, None)?;
            /// assert_eq!(state.hidden.shape(), [2, 3, 16]);
            /// let (output, _) = layer.forward_state(&input, Some(&state))?; // goes on from there
            /// assert_eq!(output.shape(), [3, 10, 16]);
            /// # Ok::<(), millstream::Error>(())
            /// ```
            pub struct $name(Layers);

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
                    Ok(Self(Layers { layers, cell: $cell, options, name }))
                }

                /// The output of the last layer at every step, and the last states of all layers. It begins with
                /// the given states, or with zeros.
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

                described!();
            }

            impl fmt::Debug for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    self.0.describe(stringify!($name)).write(f)
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
