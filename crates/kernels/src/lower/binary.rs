//! Functions of two elements.

use millstream_core::{BinaryOp, BoundCommand};
use smallvec::smallvec;

use crate::params::params;
use crate::program::Definition;
use crate::walk::{Elementwise, Walk};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// What `binary` is told.
    BinaryParams { walk: Walk<3>, tail: u32 }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "binary",
    text: include_str!("../../programs/binary.kernel"),
    constants: &["OP", "DTYPE", "TO", "RANK", "WIDE", "VECTOR", "STEPS"],
    params: BinaryParams::declaration,
};

pub(super) fn lower(command: &BoundCommand, op: BinaryOp, limits: &Limits) -> Lowered {
    let (dst, a, b) = (&command.outputs()[0], &command.inputs()[0], &command.inputs()[1]);
    let Some(grid) = Elementwise::new([dst, a, b], limits) else { return Lowered::default() };
    let (from, to) = (a.layout.dtype() as i32, dst.layout.dtype() as i32);
    let constants = [op as i32, from, to, grid.rank, grid.wide, grid.vector, grid.steps];
    let launch = Launch {
        key: Key::new(Program::Binary, &constants),
        groups: grid.groups,
        threads: grid.threads,
        slots: smallvec![Slot::from(dst), Slot::from(a), Slot::from(b)],
        params: BinaryParams { walk: grid.walk, tail: grid.tail }.pack(),
    };
    Lowered { launches: smallvec![launch], workspace: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_numbered_as_the_program_text_numbers_them() {
        use BinaryOp::*;
        let numbered = [(Add, 0), (Div, 3), (Pow, 4), (Mod, 7), (Prelu, 10), (Equal, 11)];
        let more = [(GreaterEqual, 16), (And, 17), (ShiftLeft, 20), (ShiftRight, 21)];
        assert!(numbered.iter().chain(&more).all(|&(op, number)| op as i32 == number));
    }
}
