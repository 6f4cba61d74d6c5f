//! Recurrent layers.

use super::Fit;
use crate::command::{RecurrentCell, RecurrentParams, RecurrentVariant};
use crate::{DType, Result};

/// Checks that the cell can have this variant.
fn variant<B>(fit: &Fit<'_, B>, variant: &RecurrentVariant, lstm: bool) -> Result<()> {
    let RecurrentVariant {
        clip,
        input_forget,
        activations: _,
        peepholes,
        quantized,
        zeros,
        rounded,
    } = *variant;
    if let Some(clip) = clip {
        let fits = clip.is_finite() && clip > 0.0;
        fit.wants(fits, "clip", || "a positive number".into(), clip)?;
    }
    for (given, name) in [(input_forget, "input_forget"), (peepholes, "peepholes")] {
        fit.wants(lstm || !given, name, || "false: only an LSTM has that".into(), given)?;
    }
    let fits = (lstm && quantized) || !rounded;
    fit.wants(fits, "rounded", || "false: only an LSTM of 8-bit weights has that".into(), rounded)?;
    fit.wants(quantized || !zeros, "zeros", || "false without scales".into(), zeros)
}

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
    variant(fit, &params.variant, lstm)?;
    let wants = |place: usize, shape: &[usize]| {
        fit.wants_dtype(place, dtype)?;
        fit.wants_shape(place, shape)
    };
    let state = [directions, batch, hidden];
    if params.variant.quantized {
        fit.wants_dtype(0, DType::F32)?;
    }
    let weight = |place: usize, columns: usize| match params.variant.quantized {
        true => {
            fit.wants_byte(place)?;
            fit.wants_dtype(place, fit.dtype(1))?;
            fit.wants_shape(place, &[directions, rows, columns])
        }
        false => wants(place, &[directions, rows, columns]),
    };
    weight(1, input)?;
    weight(2, hidden)?;
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
    if let Some(place) = next(params.variant.peepholes) {
        wants(place, &[directions, hidden.saturating_mul(3)])?;
    }
    let bytes = fit.dtype(1);
    for (given, dtype) in [(params.variant.quantized, dtype), (params.variant.zeros, bytes)] {
        for _ in 0..2 {
            if let Some(place) = next(given) {
                fit.wants_dtype(place, dtype)?;
                fit.stretch(place, &[directions, rows])?;
            }
        }
    }
    fit.output(dtype, &[time, directions, batch, hidden])?;
    fit.output(dtype, &state)?;
    if lstm { fit.output(dtype, &state) } else { Ok(()) }
}
