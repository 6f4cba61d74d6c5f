//! Running sums and products.

use millstream_core::BoundCommand;

use super::rows::{RowParams, Rows, Worker};
use crate::program::Definition;
use crate::walk::is_wide;
use crate::{Key, Limits, Lowered, Program};

pub(crate) const PROGRAM: Definition = Definition {
    name: "cumsum",
    text: include_str!("../../programs/cumsum.kernel"),
    constants: &["DTYPE", "EXCLUSIVE", "REVERSE", "PRODUCT", "RANK", "WIDE", "MODE"],
    params: RowParams::declaration,
};

pub(super) fn lower(
    command: &BoundCommand,
    axis: usize,
    [exclusive, reverse, product]: [bool; 3],
    limits: &Limits,
) -> Lowered {
    let (dst, src) = (&command.outputs()[0], &command.inputs()[0]);
    if dst.layout.is_empty() {
        return Lowered::default();
    }
    let rows = Rows::new(dst, src, axis);
    let worker = if rows.size <= 32 || rows.are_across() { Worker::Thread } else { Worker::Group };
    let constants = [
        src.layout.dtype() as i32,
        exclusive.into(),
        reverse.into(),
        product.into(),
        rows.starts.rank(),
        is_wide([dst, src]).into(),
        worker as i32,
    ];
    rows.launch(Key::new(Program::CumSum, &constants), worker, limits)
}
