//! Recurrent layers.

use smallvec::SmallVec;

use super::{BufferLike, Command, Op, Operand, RecurrentCell, RecurrentDirection, RecurrentParams};
use crate::Result;

/// The activation of a gate, by ONNX's names.
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
    /// `x` where it is not negative, else `alpha · x`.
    LeakyRelu {
        /// The slope below 0.
        alpha: f32,
    },
    /// `x` where it is above `alpha`, else 0.
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
    /// `x` where it is not negative, else `alpha · (eˣ - 1)`.
    Elu {
        /// The result approaches `-alpha` far below 0.
        alpha: f32,
    },
    /// `x / (1 + |x|)`.
    Softsign,
    /// `log(1 + eˣ)`.
    Softplus,
}

impl RecurrentActivation {
    /// The number of this variant and its two parameters; a parameter that it does not have is 0.
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

/// Differences from the usual recurrent layer. The default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RecurrentVariant {
    /// Limits the input of every gate's activation to `-clip ..= clip`. The cell state of an LSTM is not limited, as
    /// in ONNX Runtime.
    pub clip: Option<f32>,
    /// Whether the forget gate of an LSTM is coupled to the input gate: `f = 1 - i`.
    pub input_forget: bool,
    /// Activations other than the usual ones, for each direction: of the gates (ONNX's `f`), of the new value (`g`),
    /// and of the cell state (`h`). A GRU uses the first two. A plain recurrent layer uses the first.
    pub activations: Option<[[RecurrentActivation; 3]; 2]>,
    /// Whether an LSTM has peepholes: `[directions, 3 · hidden]`, for the input, output and forget gates. Input and
    /// forget gate see the old cell state, the output gate sees the new one.
    pub peepholes: bool,
    /// Whether both weights are 8-bit integers, `i8` or `u8`, that stand for `(weight - zero) · scale`. Scales are
    /// already broadcast to `[directions, gates · hidden]`. All other operands are `f32` then.
    ///
    /// Weights are dequantized before they are multiplied.
    pub quantized: bool,
    /// Whether 8-bit weights have zero points, broadcast like the scales. If not, they are 0.
    pub zeros: bool,
    /// Whether an LSTM of 8-bit weights multiplies them with a hidden state of 8 bits: at each step, that of each
    /// sequence is rounded to 256 numbers from its least to its largest, 0 among them, as `DynamicQuantizeLinear`
    /// does; NaN becomes 0. The outputs are not rounded. `DynamicQuantizeLSTM` of ONNX Runtime does this, and rounds the input as well.
    pub rounded: bool,
}

impl RecurrentCell {
    /// The usual activations of a cell.
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
    /// Scales of 8-bit weights: those of the input, then those of the hidden state.
    pub scales: Option<[Operand<B>; 2]>,
    /// Zero points of 8-bit weights.
    pub zeros: Option<[Operand<B>; 2]>,
}

impl<B> Default for RecurrentExtras<B> {
    fn default() -> Self {
        Self { peepholes: None, scales: None, zeros: None }
    }
}

/// The operands of a recurrent layer. The table of [`Op::Recurrent`] has their shapes and the order of gates.
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
    /// Receives the last cell state. Only an LSTM has one.
    pub last_cell: Option<Operand<B>>,
    /// The input of every step.
    pub src: Operand<B>,
    /// The weights of the input.
    pub input_weight: Operand<B>,
    /// The weights of the hidden state.
    pub hidden_weight: Operand<B>,
    /// Biases of both products; 0 if absent.
    pub bias: Option<Operand<B>>,
    /// The initial hidden state; 0 if absent.
    pub initial_hidden: Option<Operand<B>>,
    /// The initial cell state of an LSTM; 0 if absent.
    pub initial_cell: Option<Operand<B>>,
    /// The length of each sequence of the batch; all steps if absent.
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

    /// As [`recurrent`](Self::recurrent), with a variant of the layer. Its flags are set from the operands that are
    /// given.
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
