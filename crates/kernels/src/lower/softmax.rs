//! Softmax and its logarithm.

use millstream_core::BoundCommand;

use super::rows::{RowParams, Rows, Worker};
use super::softmax_columns;
use crate::program::Definition;
use crate::walk::is_wide;
use crate::{Key, Limits, Lowered, Program};

pub(crate) const PROGRAM: Definition = Definition {
    name: "softmax",
    text: include_str!("../../programs/softmax.kernel"),
    constants: &["DTYPE", "LOG", "RANK", "WIDE", "VECTOR", "MODE"],
    params: RowParams::declaration,
};

pub(super) fn lower(command: &BoundCommand, axis: usize, log: bool, limits: &Limits) -> Lowered {
    let (dst, src) = (&command.outputs()[0], &command.inputs()[0]);
    if dst.layout.is_empty() {
        return Lowered::default();
    }
    let rows = Rows::new(dst, src, axis);
    if let Some(lowered) = softmax_columns::lower(&rows, log, limits) {
        return lowered;
    }
    let worker = Worker::for_rows(rows.size, rows.are_across());
    let dense = rows.size == 1 || (rows.to, rows.from) == (1, 1);
    let vector = match worker {
        Worker::Thread => 1,
        _ if dense => rows.starts.vector([dst, src], rows.size),
        _ => 1,
    };
    let constants = [
        src.layout.dtype() as i32,
        log.into(),
        rows.starts.rank(),
        is_wide([dst, src]).into(),
        vector as i32,
        worker as i32,
    ];
    rows.launch(Key::new(Program::Softmax, &constants), worker, limits)
}
