//! Selection of one of two elements by a condition.

use millstream_core::BoundCommand;
use smallvec::smallvec;

use crate::params::params;
use crate::program::Definition;
use crate::walk::{Elementwise, Walk};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `select`.
    SelectParams { walk: Walk<4>, tail: u32 }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "select",
    text: include_str!("../../programs/select.kernel"),
    constants: &["SIZE", "RANK", "WIDE", "VECTOR", "STEPS"],
    params: SelectParams::declaration,
};

pub(super) fn lower(command: &BoundCommand, limits: &Limits) -> Lowered {
    let (dst, inputs) = (&command.outputs()[0], command.inputs());
    let operands = [dst, &inputs[0], &inputs[1], &inputs[2]];
    let Some(grid) = Elementwise::new(operands, limits) else { return Lowered::default() };
    let size = dst.layout.dtype().size() as i32;
    let constants = [size, grid.rank, grid.wide, grid.vector, grid.steps];
    let launch = Launch {
        key: Key::new(Program::Select, &constants),
        groups: grid.groups,
        threads: grid.threads,
        slots: operands.iter().map(|&operand| Slot::from(operand)).collect(),
        params: SelectParams { walk: grid.walk, tail: grid.tail }.pack(),
    };
    Lowered { launches: smallvec![launch], workspace: 0 }
}
