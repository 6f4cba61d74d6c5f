//! Evenly spaced numbers.

use millstream_core::{BoundCommand, DType, IotaParams, MAX_RANK, Scalar};
use smallvec::{SmallVec, smallvec};

use crate::params::params;
use crate::program::Definition;
use crate::walk::{Axes, Walk, is_wide};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `iota`.
    IotaKernelParams {
        /// The output, and the index along the axis.
        walk: Walk<2>,
        /// The bits of both numbers: of an `f64`, of an `f32` for other floating-point types, or of an integer.
        start: u64,
        step: u64,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "iota",
    text: include_str!("../../programs/iota.kernel"),
    constants: &["TYPE", "RANK", "WIDE"],
    params: IotaKernelParams::declaration,
};

pub(super) fn lower(command: &BoundCommand, params: &IotaParams, limits: &Limits) -> Lowered {
    let dst = &command.outputs()[0];
    let layout = &dst.layout;
    if layout.is_empty() {
        return Lowered::default();
    }
    let along = usize::from(params.axis);
    let mut axes: SmallVec<[(usize, [usize; 2]); MAX_RANK]> = (0..layout.rank())
        .map(|axis| (layout.shape()[axis], [layout.strides()[axis], usize::from(axis == along)]))
        .filter(|axis| axis.0 != 1)
        .collect();
    axes.sort_by_key(|(_, strides)| std::cmp::Reverse(strides[0]));
    let axes = Axes::merge(axes.into_iter());
    let dtype = layout.dtype();
    let bits = |value: Scalar| match dtype {
        DType::F64 => value.as_f64().to_bits(),
        _ if dtype.is_float() => u64::from((value.as_f64() as f32).to_bits()),
        _ => u64::from_ne_bytes(value.to_bytes(dtype)),
    };
    let threads = limits.usual_threads();
    let launch_params = IotaKernelParams {
        walk: axes.walk([layout.offset(), 0]),
        start: bits(params.start),
        step: bits(params.step),
    };
    let launch = Launch {
        key: Key::new(Program::Iota, &[dtype as i32, axes.rank(), is_wide([dst]).into()]),
        groups: [limits.groups_for(axes.elements(), threads), 1, 1],
        threads,
        slots: smallvec![Slot::from(dst)],
        params: launch_params.pack(),
    };
    Lowered { launches: smallvec![launch], workspace: 0 }
}
