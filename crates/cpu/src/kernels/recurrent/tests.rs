use millstream_core::{Command, DType, Recurrent, RecurrentCell, RecurrentDirection};

use super::rounded::RoundToBytes;
use crate::kernels::shared::simd::vectorized;
use crate::kernels::shared::testing::{
    Tensor, assert_close, assert_same_bits_in_any_order, noise, run,
};

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[test]
fn a_state_is_rounded_to_bytes_with_0_among_them() {
    let round = |hidden: &[f32]| {
        let mut to = vec![f32::NAN; hidden.len()];
        vectorized(RoundToBytes { hidden, to: &mut to });
        to
    };
    let state = [-1.0, 0.0, 0.503, 1.5, -0.01, 1.2];
    let step = 2.5 / 255.0;
    for (rounded, exact) in round(&state).into_iter().zip(state) {
        assert!((rounded - exact).abs() <= 0.5001 * step, "{rounded} for {exact}");
        let steps = rounded / step;
        assert!((steps - steps.round()).abs() < 1e-3, "{rounded} is no multiple of {step}");
    }
    assert_eq!(round(&[0.0; 3]), [0.0; 3]);
    // As `DynamicQuantize` does: what is no number has no part in the range, and stands for 0.
    assert_eq!(round(&[f32::NAN, 255.0, 0.0]), [0.0, 255.0, 0.0]);
}

/// Rows alone and rows among others have the same bits, with any number of threads.
#[test]
fn bits_depend_neither_on_threads_nor_on_the_batch() {
    let (time, batch, input, hidden) = (7, 37, 9, 21);
    let cells = [
        RecurrentCell::Lstm,
        RecurrentCell::Gru { linear_before_reset: true },
        RecurrentCell::Gru { linear_before_reset: false },
        RecurrentCell::RnnTanh,
    ];
    for cell in cells {
        let rows = cell.gates() * hidden;
        let tensor = |shape: &[usize], seed| {
            Tensor::floats(DType::F32, shape, &noise(shape.iter().product(), seed))
        };
        let (w, r) = (tensor(&[2, rows, input], 1), tensor(&[2, rows, hidden], 2));
        let bias = tensor(&[2, 2, rows], 3);
        let values = noise(time * batch * input, 4);
        let lengths: Vec<i32> = (0..batch).map(|i| (i % 9) as i32 - 1).collect();
        let compute = |first: usize, count: usize, threads: bool| {
            let part: Vec<f64> = (0..time)
                .flat_map(|t| &values[(t * batch + first) * input..][..count * input])
                .copied()
                .collect();
            let src = Tensor::floats(DType::F32, &[time, count, input], &part);
            let lengths = Tensor::new(&[count], &lengths[first..][..count]);
            let sequence = Tensor::output(DType::F32, &[time, 2, count, hidden]);
            let last = Tensor::output(DType::F32, &[2, count, hidden]);
            let state = Tensor::output(DType::F32, &[2, count, hidden]);
            let command = Command::recurrent(Recurrent {
                cell,
                direction: RecurrentDirection::Both,
                sequence: sequence.operand(),
                last_hidden: last.operand(),
                last_cell: (cell == RecurrentCell::Lstm).then(|| state.operand()),
                src: src.operand(),
                input_weight: w.operand(),
                hidden_weight: r.operand(),
                bias: Some(bias.operand()),
                initial_hidden: None,
                initial_cell: None,
                lengths: Some(lengths.operand()),
            });
            match threads {
                true => assert_same_bits_in_any_order(&command.unwrap(), &sequence),
                false => run(command),
            }
            (sequence.values::<f32>(), last.values::<f32>())
        };
        let (whole, whole_last) = compute(0, batch, true);
        for sequence in [0, 5, 16, 36] {
            let (alone, alone_last) = compute(sequence, 1, false);
            for outer in 0..time * 2 {
                let row = &whole[(outer * batch + sequence) * hidden..][..hidden];
                assert_eq!(row, &alone[outer * hidden..][..hidden]);
            }
            for direction in 0..2 {
                let row = &whole_last[(direction * batch + sequence) * hidden..][..hidden];
                assert_eq!(row, &alone_last[direction * hidden..][..hidden]);
            }
        }
    }
}

#[test]
fn one_step_of_an_lstm_follows_its_formula() {
    let dst = Tensor::output(DType::F64, &[1, 1, 1, 1]);
    let (last, state) =
        (Tensor::output(DType::F64, &[1, 1, 1]), Tensor::output(DType::F64, &[1, 1, 1]));
    let (x, h, c) = (0.7, 0.3, -0.4);
    let (w, r) = ([0.1, 0.2, -0.3, 0.4], [0.5, -0.6, 0.7, 0.8]);
    let one = |value: f64| Tensor::new(&[1, 1, 1], &[value]);
    let (src, first, cell) = (one(x), one(h), one(c));
    let (input_weight, hidden_weight) = (Tensor::new(&[1, 4, 1], &w), Tensor::new(&[1, 4, 1], &r));
    run(Command::recurrent(Recurrent {
        cell: RecurrentCell::Lstm,
        direction: RecurrentDirection::Reverse,
        sequence: dst.operand(),
        last_hidden: last.operand(),
        last_cell: Some(state.operand()),
        src: src.operand(),
        input_weight: input_weight.operand(),
        hidden_weight: hidden_weight.operand(),
        bias: None,
        initial_hidden: Some(first.operand()),
        initial_cell: Some(cell.operand()),
        lengths: None,
    }));
    let gate = |i: usize| w[i] * x + r[i] * h;
    let new = sigmoid(gate(2)) * c + sigmoid(gate(0)) * gate(3).tanh();
    assert_close(&state.to_f64(), &[new], 1e-14);
    assert_close(&dst.to_f64(), &[sigmoid(gate(1)) * new.tanh()], 1e-14);
    assert_eq!(dst.to_f64(), last.to_f64());
}
