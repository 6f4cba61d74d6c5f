//! Recurrent layers.

use smallvec::SmallVec;

use super::{BufferLike, Command, Op, Operand, RecurrentCell, RecurrentDirection, RecurrentParams};
use crate::Result;

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
        let params = RecurrentParams {
            cell: layer.cell,
            direction: layer.direction,
            bias: layer.bias.is_some(),
            initial_hidden: layer.initial_hidden.is_some(),
            initial_cell: layer.initial_cell.is_some(),
            lengths: layer.lengths.is_some(),
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
            .chain(layer.lengths);
        Self::new(Op::Recurrent { params: Box::new(params) }, outputs, inputs)
    }
}
