//! Limits of each element.

use millstream_core::{BoundCommand, Scalar};
use smallvec::smallvec;

use crate::params::params;
use crate::program::Definition;
use crate::walk::{Elementwise, Walk};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// What `clip` is told.
    ClipParams {
        walk: Walk<2>,
        /// The bytes of the limits, as elements.
        low: u64,
        high: u64,
        tail: u32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "clip",
    text: include_str!("../../programs/clip.kernel"),
    constants: &["DTYPE", "HAS", "RANK", "WIDE", "VECTOR", "STEPS"],
    params: ClipParams::declaration,
};

pub(super) fn lower(
    command: &BoundCommand,
    min: Option<Scalar>,
    max: Option<Scalar>,
    limits: &Limits,
) -> Lowered {
    let (dst, src) = (&command.outputs()[0], &command.inputs()[0]);
    let Some(grid) = Elementwise::new([dst, src], limits) else { return Lowered::default() };
    let dtype = src.layout.dtype();
    let bits =
        |limit: Option<Scalar>| limit.map_or(0, |limit| u64::from_ne_bytes(limit.to_bytes(dtype)));
    let has = i32::from(min.is_some()) | i32::from(max.is_some()) << 1;
    let constants = [dtype as i32, has, grid.rank, grid.wide, grid.vector, grid.steps];
    let params = ClipParams { walk: grid.walk, low: bits(min), high: bits(max), tail: grid.tail };
    let launch = Launch {
        key: Key::new(Program::Clip, &constants),
        groups: grid.groups,
        threads: grid.threads,
        slots: smallvec![Slot::from(dst), Slot::from(src)],
        params: params.pack(),
    };
    Lowered { launches: smallvec![launch], workspace: 0 }
}
