//! Recurrent layers.

use smallvec::SmallVec;

use super::{BufferLike, Command, Op, Operand, RecurrentCell, RecurrentDirection, RecurrentParams};
use crate::Result;

/// What a gate makes of its sum, by ONNX's names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RecurrentActivation {
    /// `max(x, 0)`.
    Relu,
    /// `tanh x`.
    Tanh,
    /// `1 / (1 + e⁻ˣ)`.
    Sigmoid,
    /// `alpha · x + beta`.
    Affine {
        /// The slope.
        alpha: f32,
        /// What is added.
        beta: f32,
    },
    /// `x`, below 0 `alpha · x`.
    LeakyRelu {
        /// The slope below 0.
        alpha: f32,
    },
    /// `x`, below `alpha` 0.
    ThresholdedRelu {
        /// The threshold.
        alpha: f32,
    },
    /// `alpha · tanh(beta · x)`.
    ScaledTanh {
        /// Multiplies the result.
        alpha: f32,
        /// Multiplies the argument.
        beta: f32,
    },
    /// `alpha · x + beta`, limited to `0 ..= 1`.
    HardSigmoid {
        /// The slope.
        alpha: f32,
        /// What is added.
        beta: f32,
    },
    /// `x`, below 0 `alpha · (eˣ - 1)`.
    Elu {
        /// The limit far below 0, negated.
        alpha: f32,
    },
    /// `x / (1 + |x|)`.
    Softsign,
    /// `log(1 + eˣ)`.
    Softplus,
}

impl RecurrentActivation {
    /// Its number in the list above, and its two parameters; those that it does not have are 0.
    pub const fn parts(self) -> (u32, f32, f32) {
        match self {
            Self::Relu => (0, 0.0, 0.0),
            Self::Tanh => (1, 0.0, 0.0),
            Self::Sigmoid => (2, 0.0, 0.0),
            Self::Affine { alpha, beta } => (3, alpha, beta),
            Self::LeakyRelu { alpha } => (4, alpha, 0.0),
            Self::ThresholdedRelu { alpha } => (5, alpha, 0.0),
            Self::ScaledTanh { alpha, beta } => (6, alpha, beta),
            Self::HardSigmoid { alpha, beta } => (7, alpha, beta),
            Self::Elu { alpha } => (8, alpha, 0.0),
            Self::Softsign => (9, 0.0, 0.0),
            Self::Softplus => (10, 0.0, 0.0),
        }
    }
}

/// How a recurrent layer differs from the usual one, which is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RecurrentVariant {
    /// Limits what goes into the activation of every gate to `-clip ..= clip`. The cell state of an LSTM is not
    /// limited, as ONNX Runtime has it.
    pub clip: Option<f32>,
    /// The forget gate of an LSTM is what the input gate leaves: `f = 1 - i`.
    pub input_forget: bool,
    /// Other activations than the usual ones, for each direction: those of the gates (`f` of ONNX), of the new
    /// value (`g`), and of the cell state (`h`). A GRU has the first two, others have the first alone.
    pub activations: Option<[[RecurrentActivation; 3]; 2]>,
    /// Whether an LSTM is given peepholes: `[directions, 3 · hidden]` for the gates input, output and forget,
    /// which see the cell state, the output gate the new one.
    pub peepholes: bool,
    /// Whether both weights are 8-bit integers, `i8` or `u8`, which stand for `(weight - zero) · scale`. Scales
    /// are already broadcast to `[directions, gates · hidden]`. All other numbers are `f32` then.
    ///
    /// Weights are turned back into numbers, and those are multiplied. ONNX Runtime's `DynamicQuantizeLSTM` makes
    /// 8-bit integers of what they are multiplied with, too: its results are off from these by about half a
    /// step of that in every product.
    pub quantized: bool,
    /// Whether zero points of 8-bit weights are given, broadcast as the scales; else they are 0.
    pub zeros: bool,
}

impl RecurrentCell {
    /// The activations that a cell has by default.
    pub const fn activations(self) -> [RecurrentActivation; 3] {
        use RecurrentActivation::{Relu, Sigmoid, Tanh};
        match self {
            RecurrentCell::Lstm | RecurrentCell::Gru { .. } => [Sigmoid, Tanh, Tanh],
            RecurrentCell::RnnTanh => [Tanh; 3],
            RecurrentCell::RnnRelu => [Relu; 3],
        }
    }
}

/// Operands that few recurrent layers have, as [`RecurrentVariant`] describes them.
#[derive(Clone, Debug)]
pub struct RecurrentExtras<B> {
    /// Peepholes of an LSTM.
    pub peepholes: Option<Operand<B>>,
    /// Scales of 8-bit weights: of the input's, and of the hidden state's.
    pub scales: Option<[Operand<B>; 2]>,
    /// Zero points of 8-bit weights.
    pub zeros: Option<[Operand<B>; 2]>,
}

impl<B> Default for RecurrentExtras<B> {
    fn default() -> Self {
        Self { peepholes: None, scales: None, zeros: None }
    }
}

/// The operands of a recurrent layer that is to be recorded; their shapes and the order of gates are
/// in the table of [`Op::Recurrent`].
#[derive(Clone, Debug)]
pub struct Recurrent<B> {
    /// Kind of cell.
    pub cell: RecurrentCell,
    /// Direction.
    pub direction: RecurrentDirection,
    /// Receives the hidden state of every step.
    pub sequence: Operand<B>,
    /// Receives the last hidden state.
    pub last_hidden: Operand<B>,
    /// Receives the last cell state: for an LSTM, and only for it.
    pub last_cell: Option<Operand<B>>,
    /// The input of every step.
    pub src: Operand<B>,
    /// What the input is multiplied with.
    pub input_weight: Operand<B>,
    /// What the hidden state is multiplied with.
    pub hidden_weight: Operand<B>,
    /// Biases of both products; none count as 0.
    pub bias: Option<Operand<B>>,
    /// The first hidden state; none counts as 0.
    pub initial_hidden: Option<Operand<B>>,
    /// The first cell state of an LSTM; none counts as 0.
    pub initial_cell: Option<Operand<B>>,
    /// The length of each sequence of the batch; none counts as all steps.
    pub lengths: Option<Operand<B>>,
}

impl<B: BufferLike> Command<B> {
    /// A recurrent layer over a whole sequence, as [`Op::Recurrent`] describes it.
    ///
    /// # Errors
    ///
    /// Shapes or types that do not match, cell states for a cell that has none, or operands that do not
    /// fit their buffers or overlap.
    pub fn recurrent(layer: Recurrent<B>) -> Result<Self> {
        Self::recurrent_with(layer, RecurrentVariant::default(), RecurrentExtras::default())
    }

    /// The same with what few layers have. Which of the extra operands there are follows from what is given.
    ///
    /// # Errors
    ///
    /// As for [`recurrent`](Self::recurrent), and a variant that the cell does not have.
    pub fn recurrent_with(
        layer: Recurrent<B>,
        variant: RecurrentVariant,
        extras: RecurrentExtras<B>,
    ) -> Result<Self> {
        let variant = RecurrentVariant {
            peepholes: extras.peepholes.is_some(),
            quantized: extras.scales.is_some(),
            zeros: extras.zeros.is_some(),
            ..variant
        };
        let params = RecurrentParams {
            cell: layer.cell,
            direction: layer.direction,
            bias: layer.bias.is_some(),
            initial_hidden: layer.initial_hidden.is_some(),
            initial_cell: layer.initial_cell.is_some(),
            lengths: layer.lengths.is_some(),
            variant,
        };
        let mut outputs = SmallVec::<[Operand<B>; 3]>::new();
        outputs.push(layer.sequence);
        outputs.push(layer.last_hidden);
        outputs.extend(layer.last_cell);
        let inputs = [layer.src, layer.input_weight, layer.hidden_weight]
            .into_iter()
            .chain(layer.bias)
            .chain(layer.initial_hidden)
            .chain(layer.initial_cell)
            .chain(layer.lengths)
            .chain(extras.peepholes)
            .chain(extras.scales.into_iter().flatten())
            .chain(extras.zeros.into_iter().flatten());
        Self::new(Op::Recurrent { params: Box::new(params) }, outputs, inputs)
    }
}
