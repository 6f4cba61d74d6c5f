//! Random numbers, the same bits as on every other device.

use millstream_core::{BoundCommand, Distribution};
use smallvec::smallvec;

use crate::params::params;
use crate::program::Definition;
use crate::walk::{Axes, Walk, is_wide};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `random`.
    RandomParams {
        walk: Walk<1>,
        seed: u64,
        /// The position of the first element in the sequence.
        offset: u64,
        /// The lower limit or the mean.
        first: f32,
        /// The upper limit or the deviation.
        second: f32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "random",
    text: include_str!("../../programs/random.kernel"),
    constants: &["TYPE", "NORMAL", "RANK", "WIDE"],
    params: RandomParams::declaration,
};

pub(super) fn lower(
    command: &BoundCommand,
    distribution: Distribution,
    (seed, offset): (u64, u64),
    limits: &Limits,
) -> Lowered {
    let dst = &command.outputs()[0];
    let layout = &dst.layout;
    if layout.is_empty() {
        return Lowered::default();
    }
    // The number of an element is its index in row-major order, whatever the strides.
    let axes = Axes::merge((0..layout.rank()).map(|i| (layout.shape()[i], [layout.strides()[i]])));
    let (normal, first, second) = match distribution {
        Distribution::Uniform { low, high } => (0, low, high),
        Distribution::Normal { mean, deviation } => (1, mean, deviation),
    };
    let threads = limits.usual_threads();
    let rank = if axes.rank() == 1 { 1 } else { 8 };
    let constants = [layout.dtype() as i32, normal, rank, is_wide([dst]).into()];
    let launch = Launch {
        key: Key::new(Program::Random, &constants),
        groups: [limits.groups_for(axes.elements().div_ceil(4), threads), 1, 1],
        threads,
        slots: smallvec![Slot::from(dst)],
        params: RandomParams { walk: axes.walk([layout.offset()]), seed, offset, first, second }
            .pack(),
    };
    Lowered { launches: smallvec![launch], workspace: 0 }
}
