//! Conversion to and from storage-only types.

use millstream_core::{Operand, RawBuffer};
use smallvec::smallvec;

use crate::params::params;
use crate::program::Definition;
use crate::walk::{Axes, Walk, is_wide};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `storage`.
    StorageParams {
        walk: Walk<2>,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "storage",
    text: include_str!("../../programs/storage.kernel"),
    constants: &["STORED", "TYPE", "BACK", "SATURATES", "RANK", "WIDE"],
    params: StorageParams::declaration,
};

/// Exactly one of the two types is storage-only.
pub(super) fn lower(
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    saturate: bool,
    limits: &Limits,
) -> Lowered {
    if dst.layout.is_empty() {
        return Lowered::default();
    }
    let back = src.layout.dtype().is_storage();
    let (stored, other) = if back { (src, dst) } else { (dst, src) };
    // Axes in the order of the output's strides, largest first: 4-bit numbers must be written in their own order.
    let axes = Axes::of([dst, src]);
    let together = if back { 1 } else { stored.layout.dtype().per_byte() };
    let constants = [
        stored.layout.dtype() as i32,
        other.layout.dtype() as i32,
        back.into(),
        // Saturation makes no difference in the other direction.
        (saturate || back).into(),
        axes.rank(),
        is_wide([dst, src]).into(),
    ];
    let threads = limits.usual_threads();
    let launch = Launch {
        key: Key::new(Program::Storage, &constants),
        groups: [limits.groups_for(axes.elements().div_ceil(together), threads), 1, 1],
        threads,
        slots: smallvec![Slot::from(dst), Slot::from(src)],
        params: StorageParams {
            walk: axes.walk([dst, src].map(|operand| operand.layout.offset())),
        }
        .pack(),
    };
    Lowered { launches: smallvec![launch], workspace: 0 }
}
