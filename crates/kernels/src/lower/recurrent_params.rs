//! The params of the programs of recurrent layers.

use crate::params::params;
use crate::program::Definition;

params! {
    /// The params of `recurrent_start`. Operands are the initial hidden state, the initial cell state and lengths.
    StartParams {
        directions: u64,
        batch: u64,
        hidden: u64,
        time: u64,
        offset: [u64; 3],
        stride: [[u64; 3]; 3],
        peepholes_offset: u64,
        peepholes: [u64; 2],
        has_hidden: u32,
        has_cell: u32,
        has_lengths: u32,
        has_peepholes: u32,
    }
}

params! {
    /// The params of `recurrent_steps`.
    StepsParams {
        directions: u64,
        batch: u64,
        hidden: u64,
        time: u64,
        /// The first step, and the number of steps.
        first: u64,
        steps: u64,
        weight_offset: u64,
        weight: [u64; 3],
        bias_offset: u64,
        bias: [u64; 3],
        sequence_offset: u64,
        sequence: [u64; 4],
        /// Bit `d` is set if direction `d` runs from the end.
        reverse: u32,
        /// 1 for the first half of a step, 2 for the second.
        halves: u32,
        has_bias: u32,
        /// The kind and the parameters of each activation, per direction.
        kind: [[u32; 3]; 2],
        alpha: [[f32; 3]; 2],
        beta: [[f32; 3]; 2],
        clip: f32,
        has_clip: u32,
        input_forget: u32,
        has_peepholes: u32,
        /// Whether weights are multiplied with a hidden state of 8 bits.
        rounded: u32,
    }
}

params! {
    /// The params of `recurrent_finish`. Operands are the sequence, the last hidden state and the last cell state.
    FinishParams {
        directions: u64,
        batch: u64,
        hidden: u64,
        time: u64,
        offset: [u64; 3],
        stride: [[u64; 4]; 3],
        has_cell: u32,
    }
}

pub(crate) const START_PROGRAM: Definition = Definition {
    name: "recurrent_start",
    text: include_str!("../../programs/recurrent_start.kernel"),
    constants: &["DTYPE", "LENGTHS"],
    params: StartParams::declaration,
};

pub(crate) const STEPS_PROGRAM: Definition = Definition {
    name: "recurrent_steps",
    text: include_str!("../../programs/recurrent_steps.kernel"),
    constants: &["DTYPE", "CELL", "GENERAL"],
    params: StepsParams::declaration,
};

pub(crate) const FINISH_PROGRAM: Definition = Definition {
    name: "recurrent_finish",
    text: include_str!("../../programs/recurrent_finish.kernel"),
    constants: &["DTYPE"],
    params: FinishParams::declaration,
};
