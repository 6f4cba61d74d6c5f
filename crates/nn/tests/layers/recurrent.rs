//! Recurrent layers.

use millstream_nn::{GRU, LSTM, RNN, RecurrentOptions, RecurrentState};

use crate::fixture::each;

fn both() -> RecurrentOptions {
    RecurrentOptions { num_layers: 2, batch_first: true, bidirectional: true, ..Default::default() }
}

#[test]
fn lstm() {
    for (name, options) in [("lstm", RecurrentOptions::default()), ("lstm_both", both())] {
        each(name, |fixture| {
            let layer = fixture.load(|weights| LSTM::new(10, 12, options, weights))?;
            let state = options
                .bidirectional
                .then(|| RecurrentState { hidden: fixture.input(1), cell: Some(fixture.input(2)) });
            let (output, state) = layer.forward_state(&fixture.input(0), state.as_ref())?;
            fixture.expect("output", &output)?;
            fixture.expect("hidden", &state.hidden)?;
            fixture.expect("cell", &state.cell.expect("an LSTM has cells"))
        });
    }
}

#[test]
fn gru() {
    let no_bias = RecurrentOptions { bias: false, ..Default::default() };
    for (name, options) in [("gru", no_bias), ("gru_both", both())] {
        each(name, |fixture| {
            let layer = fixture.load(|weights| GRU::new(10, 12, options, weights))?;
            let state = options
                .bidirectional
                .then(|| RecurrentState { hidden: fixture.input(1), cell: None });
            let (output, state) = layer.forward_state(&fixture.input(0), state.as_ref())?;
            fixture.expect("output", &output)?;
            fixture.expect("hidden", &state.hidden)
        });
    }
}

#[test]
fn rnn() {
    each("rnn", |fixture| {
        let layer = fixture.load(|weights| RNN::new(10, 12, Default::default(), weights))?;
        let (output, state) = layer.forward_state(&fixture.input(0), None)?;
        fixture.expect("output", &output)?;
        fixture.expect("hidden", &state.hidden)
    });
}
