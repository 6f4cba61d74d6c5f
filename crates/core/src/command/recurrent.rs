//! Recurrent layers.

use smallvec::SmallVec;

use super::check::Check;
use super::{BufferLike, Command, Op, Operand, RecurrentCell, RecurrentDirection, RecurrentParams};
use crate::{DType, Result};

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
        let check = Check("recurrent");
        let dtype = layer.src.layout.dtype();
        check.float(&layer.src.layout)?;
        check.that(layer.src.layout.rank() == 3, || {
            format!("src has shape {:?}, needs [time, batch, input]", layer.src.layout.shape())
        })?;
        check.that(layer.hidden_weight.layout.rank() == 3, || {
            format!("w_hidden has shape {:?}, needs 3 axes", layer.hidden_weight.layout.shape())
        })?;
        let [time, batch, input] = std::array::from_fn(|axis| layer.src.layout.shape()[axis]);
        let hidden = layer.hidden_weight.layout.shape()[2];
        let directions = layer.direction.count();
        let Some(rows) = hidden.checked_mul(layer.cell.gates()) else {
            return check.fail(format!("a hidden state of {hidden}"));
        };
        let lstm = layer.cell == RecurrentCell::Lstm;
        check.that(layer.last_cell.is_some() == lstm, || {
            "an LSTM gives a last cell state, and no other cell does".into()
        })?;
        check.that(lstm || layer.initial_cell.is_none(), || {
            "a first cell state for a cell that has none".into()
        })?;
        let wants = |name: &str, operand: Option<&Operand<B>>, shape: &[usize]| {
            let Some(operand) = operand else { return Ok(()) };
            check.dtype(&operand.layout, dtype)?;
            check.that(operand.layout.shape() == shape, || {
                format!("{name} has shape {:?}, needs {shape:?}", operand.layout.shape())
            })
        };
        let state = [directions, batch, hidden];
        wants("w_input", Some(&layer.input_weight), &[directions, rows, input])?;
        wants("w_hidden", Some(&layer.hidden_weight), &[directions, rows, hidden])?;
        wants("bias", layer.bias.as_ref(), &[directions, 2, rows])?;
        wants("hidden_0", layer.initial_hidden.as_ref(), &state)?;
        wants("cell_0", layer.initial_cell.as_ref(), &state)?;
        wants("sequence", Some(&layer.sequence), &[time, directions, batch, hidden])?;
        wants("hidden", Some(&layer.last_hidden), &state)?;
        wants("cell", layer.last_cell.as_ref(), &state)?;
        if let Some(lengths) = &layer.lengths {
            let layout = &lengths.layout;
            check.that(matches!(layout.dtype(), DType::I32 | DType::I64), || {
                format!("lengths need i32 or i64, got {}", layout.dtype())
            })?;
            check.that(layout.shape() == [batch], || {
                format!("lengths have shape {:?}, need [{batch}]", layout.shape())
            })?;
        }
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
        Self::assemble(Op::Recurrent { params: Box::new(params) }, outputs, inputs)
    }
}
