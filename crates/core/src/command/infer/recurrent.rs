//! Recurrent layers.

use super::Fit;
use crate::Result;
use crate::command::{RecurrentCell, RecurrentParams};

pub(super) fn recurrent<B>(fit: &mut Fit<'_, B>, params: &RecurrentParams) -> Result<()> {
    fit.wants_float(0)?;
    let (dtype, lstm) = (fit.dtype(0), params.cell == RecurrentCell::Lstm);
    fit.wants_rank(0, 3, "[time, batch, input]")?;
    fit.wants_rank(2, 3, "[directions, gates · hidden, hidden]")?;
    let [time, batch, input] = std::array::from_fn(|axis| fit.shape(0)[axis]);
    let (hidden, directions) = (fit.shape(2)[2], params.direction.count());
    let Some(rows) = hidden.checked_mul(params.cell.gates()) else {
        return fit.misfit(2, "a smaller hidden state");
    };
    let cell = lstm || !params.initial_cell;
    fit.wants(
        cell,
        "initial_cell",
        || "false: only an LSTM has cells".into(),
        params.initial_cell,
    )?;
    let wants = |place: usize, shape: &[usize]| {
        fit.wants_dtype(place, dtype)?;
        fit.wants_shape(place, shape)
    };
    let state = [directions, batch, hidden];
    wants(1, &[directions, rows, input])?;
    wants(2, &[directions, rows, hidden])?;
    let mut places = 3..;
    let mut next = |given: bool| given.then(|| places.next()).flatten();
    if let Some(place) = next(params.bias) {
        wants(place, &[directions, 2, rows])?;
    }
    for given in [params.initial_hidden, params.initial_cell] {
        if let Some(place) = next(given) {
            wants(place, &state)?;
        }
    }
    if let Some(place) = next(params.lengths) {
        fit.wants_index(place)?;
        fit.wants_shape(place, &[batch])?;
    }
    fit.output(dtype, &[time, directions, batch, hidden])?;
    fit.output(dtype, &state)?;
    if lstm { fit.output(dtype, &state) } else { Ok(()) }
}
