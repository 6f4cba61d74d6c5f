//! Fills.

use millstream_core::{BoundCommand, Scalar};
use smallvec::smallvec;

use crate::params::params;
use crate::program::Definition;
use crate::walk::{Elementwise, Walk};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `fill`.
    FillParams {
        walk: Walk<1>,
        /// The bytes of one element.
        value: u64,
        tail: u32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "fill",
    text: include_str!("../../programs/fill.kernel"),
    constants: &["SIZE", "RANK", "WIDE", "VECTOR"],
    params: FillParams::declaration,
};

pub(super) fn lower(command: &BoundCommand, value: Scalar, limits: &Limits) -> Lowered {
    let dst = &command.outputs()[0];
    let Some(grid) = Elementwise::new([dst], limits) else { return Lowered::default() };
    let dtype = dst.layout.dtype();
    let value = u64::from_ne_bytes(value.to_bytes(dtype));
    let constants = [dtype.size() as i32, grid.rank, grid.wide, grid.vector];
    let launch = Launch {
        key: Key::new(Program::Fill, &constants),
        groups: grid.groups,
        threads: grid.threads,
        slots: smallvec![Slot::from(dst)],
        params: FillParams { walk: grid.walk, value, tail: grid.tail }.pack(),
    };
    Lowered { launches: smallvec![launch], workspace: 0 }
}
