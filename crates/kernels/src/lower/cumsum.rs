//! Running sums.

use millstream_core::BoundCommand;
use smallvec::smallvec;

use super::rows::Worker;
use crate::params::params;
use crate::program::Definition;
use crate::walk::{Axes, Walk, is_wide};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// What `cumsum` is told.
    CumSumParams {
        /// Where rows start in dst and src.
        rows: Walk<2>,
        /// Elements of a row.
        size: u64,
        /// Strides along a row in dst and src.
        to: u64,
        from: u64,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "cumsum",
    text: include_str!("../../programs/cumsum.metal"),
    constants: &["DTYPE", "EXCLUSIVE", "REVERSE", "RANK", "WIDE", "MODE"],
    params: CumSumParams::declaration,
};

pub(super) fn lower(
    command: &BoundCommand,
    axis: usize,
    exclusive: bool,
    reverse: bool,
    limits: &Limits,
) -> Lowered {
    let (dst, src) = (&command.outputs()[0], &command.inputs()[0]);
    if dst.layout.is_empty() {
        return Lowered::default();
    }
    let (to, from) = (dst.layout.strides()[axis], src.layout.strides()[axis]);
    let size = src.layout.shape()[axis];
    let rows = Axes::without([dst, src], axis);
    let across = rows.axes[0].1[1] < from && rows.elements() >= 32;
    let worker = if size <= 32 || across { Worker::Thread } else { Worker::Group };
    let threads = limits.usual_threads();
    let constants = [
        src.layout.dtype() as i32,
        exclusive.into(),
        reverse.into(),
        rows.rank(),
        is_wide([dst, src]).into(),
        worker as i32,
    ];
    let params = CumSumParams {
        rows: rows.walk([dst.layout.offset(), src.layout.offset()]),
        size: size as u64,
        to: to as u64,
        from: from as u64,
    };
    let launch = Launch {
        key: Key::new(Program::CumSum, &constants),
        groups: worker.groups(rows.elements(), threads, limits),
        threads,
        slots: smallvec![Slot::from(dst), Slot::from(src)],
        params: params.pack(),
    };
    Lowered { launches: smallvec![launch], workspace: 0 }
}
