//! Non-maximum suppression: boxes without those that overlap a better one.

use millstream_core::{BoundCommand, Operand, RawBuffer};
use smallvec::smallvec;

use crate::params::params;
use crate::program::Definition;
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `suppress`.
    SuppressParams {
        box_step: [u64; 3],
        box_offset: u64,
        score_step: [u64; 3],
        score_offset: u64,
        pairs: u64,
        classes: u64,
        boxes: u64,
        /// The most boxes that are selected for a batch and class.
        most: u64,
        overlap: f32,
        score: f32,
        has_score: u32,
        centered: u32,
    }
}

params! {
    /// The params of `suppress_finish`.
    FinishParams {
        offset: u64,
        row: u64,
        column: u64,
        count_at: u64,
        pairs: u64,
        classes: u64,
        most: u64,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "suppress",
    text: include_str!("../../programs/suppress.kernel"),
    constants: &[],
    params: SuppressParams::declaration,
};

pub(crate) const FINISH: Definition = Definition {
    name: "suppress_finish",
    text: include_str!("../../programs/suppress_finish.kernel"),
    constants: &[],
    params: FinishParams::declaration,
};

pub(super) fn lower(
    command: &BoundCommand,
    most: usize,
    (overlap, score, centered): (f32, Option<f32>, bool),
    limits: &Limits,
) -> Lowered {
    let ([selected, count], [boxes, scores]) = (command.outputs(), command.inputs()) else {
        return Lowered::default();
    };
    let &[batches, classes, total] = scores.layout.shape() else { return Lowered::default() };
    let (pairs, most) = (batches * classes, most.min(total));
    let mut lowered = Lowered::default();
    let left = lowered.reserve(pairs * total);
    let picks = lowered.reserve(pairs * (most + 1) * 4);
    let threads = limits.usual_threads();
    let groups = [limits.groups_for(pairs, 1), 1, 1];
    let step = |operand: &Operand<RawBuffer>| {
        std::array::from_fn(|axis| operand.layout.strides()[axis] as u64)
    };
    let launch_params = SuppressParams {
        box_step: step(boxes),
        box_offset: boxes.layout.offset() as u64,
        score_step: step(scores),
        score_offset: scores.layout.offset() as u64,
        pairs: pairs as u64,
        classes: classes as u64,
        boxes: total as u64,
        most: most as u64,
        overlap,
        score: score.unwrap_or(0.0),
        has_score: score.is_some().into(),
        centered: centered.into(),
    };
    if pairs > 0 {
        lowered.launches.push(Launch {
            key: Key::new(Program::Suppress, &[]),
            groups,
            threads,
            slots: smallvec![Slot::from(boxes), Slot::from(scores), left, picks],
            params: launch_params.pack(),
        });
    }
    let strides = selected.layout.strides();
    let launch_params = FinishParams {
        offset: selected.layout.offset() as u64,
        row: strides[0] as u64,
        column: strides[1] as u64,
        count_at: count.layout.offset() as u64,
        pairs: pairs as u64,
        classes: classes as u64,
        most: most as u64,
    };
    lowered.launches.push(Launch {
        key: Key::new(Program::SuppressFinish, &[]),
        groups,
        threads,
        slots: smallvec![Slot::from(selected), Slot::from(count), picks],
        params: launch_params.pack(),
    });
    lowered
}
