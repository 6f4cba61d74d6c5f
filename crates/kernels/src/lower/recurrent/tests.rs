use millstream_core::{Command, Layout, Recurrent};

use super::*;

const LIMITS: Limits = Limits {
    max_threads: 1024,
    shared_bytes: 48 << 10,
    simd_width: 32,
    f64: true,
    matrices: false,
    tensor_cores: false,
    parallel_groups: 132,
};

fn layer(cell: RecurrentCell, time: usize, hidden: usize) -> Lowered {
    let operand = |place: usize, shape: &[usize]| {
        let layout = Layout::contiguous(DType::F32, shape).unwrap();
        Operand::new(RawBuffer { address: place << 32, bytes: layout.extent_bytes() }, layout)
    };
    let rows = cell.gates() * hidden;
    let command = Command::recurrent(Recurrent {
        cell,
        direction: RecurrentDirection::Forward,
        sequence: operand(1, &[time, 1, 2, hidden]),
        last_hidden: operand(2, &[1, 2, hidden]),
        last_cell: (cell == RecurrentCell::Lstm).then(|| operand(3, &[1, 2, hidden])),
        src: operand(4, &[time, 2, 8]),
        input_weight: operand(5, &[1, rows, 8]),
        hidden_weight: operand(6, &[1, rows, hidden]),
        bias: None,
        initial_hidden: None,
        initial_cell: None,
        lengths: None,
    });
    crate::lower(&command.unwrap(), 0, &LIMITS).unwrap()
}

#[test]
fn a_small_layer_does_all_steps_in_one_launch() {
    let lowered = layer(RecurrentCell::Lstm, 50, 64);
    assert_eq!(lowered.launches.len(), 4);
    assert_eq!(lowered.launches[2].groups, [1, 2, 1]);
}

#[test]
fn a_large_layer_spreads_every_step_over_the_device() {
    let lstm = layer(RecurrentCell::Lstm, 7, 512);
    assert_eq!(lstm.launches.len(), 3 + 7);
    assert_eq!(lstm.launches[2].groups, [64, 2, 1]);
    let gru = layer(RecurrentCell::Gru { linear_before_reset: false }, 7, 512);
    assert_eq!(gru.launches.len(), 3 + 2 * 7);
}

#[test]
fn no_steps_only_carry_states_over() {
    assert_eq!(layer(RecurrentCell::RnnTanh, 0, 8).launches.len(), 2);
}
