//! Layer, group and root-mean-square normalization.

use millstream_core::{BoundCommand, NormOperands, Operand, RawBuffer};
use smallvec::{SmallVec, smallvec};

use super::rows::Worker;
use crate::params::params;
use crate::program::Definition;
use crate::walk::{Axes, Walk, is_wide};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `norm`. Operands are dst, src, weight and bias; mean and rstd are not used.
    NormParams {
        /// The start of each row.
        rows: Walk<4>,
        /// The elements of one row.
        row: Walk<4>,
        epsilon: f32,
    }
}

params! {
    /// The params of `norm_moments`. Operands are dst, src, weight, bias, mean and rstd.
    MomentsParams {
        /// The start of each row.
        rows: Walk<4>,
        /// The elements of one row.
        row: Walk<4>,
        /// The position of each row's mean and rstd.
        moments: Walk<2>,
        epsilon: f32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "norm",
    text: include_str!("../../programs/norm.kernel"),
    constants: &["DTYPE", "RMS", "HAS", "KEPT", "RANK", "WIDE", "VECTOR", "MODE", "HELD"],
    params: NormParams::declaration,
};

/// The same text with more params, so that norms without these outputs do not pay for them.
pub(crate) const MOMENTS_PROGRAM: Definition = Definition {
    name: "norm_moments",
    text: PROGRAM.text,
    constants: &[
        "DTYPE", "RMS", "HAS", "KEPT", "RANK", "WIDE", "VECTOR", "MODE", "HELD", "MOMENTS",
    ],
    params: MomentsParams::declaration,
};

/// The most vectors that a thread keeps.
const MAX_HELD: usize = 4;

/// How many vectors of a row each thread keeps; 0 if there are too many. The number is rounded up, which costs
/// nothing and makes fewer kernels.
fn held(vectors: usize, threads: u32) -> usize {
    match vectors.div_ceil(threads as usize) {
        0..=2 => 2,
        each if each <= MAX_HELD => MAX_HELD,
        _ => 0,
    }
}

/// Size and strides of dst, src, weight and bias along one axis.
type Axis = (usize, [usize; 4]);

/// The parameters of a normalization.
pub(super) struct Norm {
    /// Whether to divide by the root of the mean square, without subtracting the mean.
    pub rms: bool,
    /// Added to the variance.
    pub epsilon: f32,
}

impl Norm {
    /// Over the last axes, with weight and bias of their shape.
    pub fn over_last(&self, command: &BoundCommand, axes: usize, limits: &Limits) -> Lowered {
        let operands = NormOperands::of(command);
        let (dst, src) = (&operands.dst.layout, &operands.src.layout);
        let parameters = [operands.weight, operands.bias];
        let first = src.rank() - axes;
        let axis = |axis: usize| {
            let of = |parameter: Option<&Operand<RawBuffer>>| match axis.checked_sub(first) {
                Some(own) => parameter.map_or(0, |parameter| parameter.layout.strides()[own]),
                None => 0,
            };
            let strides =
                [dst.strides()[axis], src.strides()[axis], of(parameters[0]), of(parameters[1])];
            (src.shape()[axis], strides)
        };
        let rows: SmallVec<[Axis; 9]> = (0..first).map(axis).collect();
        let row: SmallVec<[Axis; 9]> = (first..src.rank()).map(axis).collect();
        self.launch(&operands, &rows, &row, limits)
    }

    /// Over groups of channels (axis 1) and all axes after them, with weight and bias per channel.
    pub fn over_groups(&self, command: &BoundCommand, groups: usize, limits: &Limits) -> Lowered {
        let operands = NormOperands::of(command);
        let (dst, src) = (&operands.dst.layout, &operands.src.layout);
        let parameters = [operands.weight, operands.bias];
        let channels = src.shape()[1] / groups;
        let along = |parameter: Option<&Operand<RawBuffer>>| {
            parameter.map_or(0, |parameter| parameter.layout.strides()[0])
        };
        let channel =
            [dst.strides()[1], src.strides()[1], along(parameters[0]), along(parameters[1])];
        let plain =
            |axis: usize| (src.shape()[axis], [dst.strides()[axis], src.strides()[axis], 0, 0]);
        let rows = [plain(0), (groups, channel.map(|stride| stride * channels))];
        let mut row: SmallVec<[Axis; 9]> = smallvec![(channels, channel)];
        row.extend((2..src.rank()).map(plain));
        self.launch(&operands, &rows, &row, limits)
    }

    fn launch(
        &self,
        operands: &NormOperands<'_, RawBuffer>,
        rows: &[Axis],
        row: &[Axis],
        limits: &Limits,
    ) -> Lowered {
        let &NormOperands { dst, mean, rstd, src, weight, bias } = operands;
        let (parameters, moments) = ([weight, bias], mean.zip(rstd));
        if mean.unwrap_or(dst).layout.is_empty() {
            return Lowered::default();
        }
        // The mean of rows without elements is NaN. Their other sizes may be too large to be multiplied.
        let row = if dst.layout.is_empty() { &[(0, [0; 4])] } else { row };
        let rows = Axes::merge(rows.iter().copied());
        let row = Axes::merge(row.iter().copied());
        let size = row.elements();
        let across = rows.axes[0].1[1] < row.axes[0].1[1] && rows.elements() >= 32;
        let worker = Worker::for_rows(size, across);
        let operands = [dst, src, weight.unwrap_or(src), bias.unwrap_or(src)];
        // Absent operands have strides of 0 and count as dense.
        let dense = row.axes.len() == 1
            && (0..4).all(|k| row.axes[0].1[k] == 1 || k >= 2 && parameters[k - 2].is_none());
        let vector =
            if worker != Worker::Thread && dense { rows.vector(operands, size) } else { 1 };
        let has = i32::from(weight.is_some()) | i32::from(bias.is_some()) << 1;
        let threads = worker.threads(rows.elements(), limits);
        let held = match worker {
            Worker::Thread => 0,
            _ if vector == 1 || !size.is_multiple_of(vector) => 0,
            _ => held(size / vector, threads / worker.per_group(threads)),
        };
        let offset = |parameter: Option<&Operand<RawBuffer>>| {
            parameter.map_or(0, |parameter| parameter.layout.offset())
        };
        let offsets = [dst.layout.offset(), src.layout.offset(), offset(weight), offset(bias)];
        let mut constants = [
            src.layout.dtype() as i32,
            self.rms.into(),
            has,
            rows.rank(),
            row.rank(),
            is_wide(operands.into_iter().chain(mean).chain(rstd)).into(),
            vector as i32,
            worker as i32,
            held as i32,
            0,
        ];
        let (starts, row, epsilon) = (rows.walk(offsets), row.walk([0; 4]), self.epsilon);
        let (key, params) = match moments {
            None => {
                let params = NormParams { rows: starts, row, epsilon };
                (Key::new(Program::Norm, &constants[..9]), params.pack())
            }
            Some((mean, rstd)) => {
                let axes = Axes::merge((0..mean.layout.rank()).map(|axis| {
                    let strides = [mean, rstd].map(|operand| operand.layout.strides()[axis]);
                    (mean.layout.shape()[axis], strides)
                }));
                let moments = axes.walk([mean.layout.offset(), rstd.layout.offset()]);
                let params = MomentsParams { rows: starts, row, moments, epsilon };
                constants[9] = axes.rank();
                (Key::new(Program::NormMoments, &constants), params.pack())
            }
        };
        let slots = operands.into_iter().chain([mean.unwrap_or(dst), rstd.unwrap_or(dst)]);
        let launch = Launch {
            key,
            groups: worker.groups(rows.elements(), threads, limits),
            threads,
            slots: slots.map(Slot::from).collect(),
            params,
        };
        Lowered { launches: smallvec![launch], workspace: 0 }
    }
}
