//! Layer, group and root-mean-square normalization.

use millstream_core::{BoundCommand, NormOperands, Operand, RawBuffer};
use smallvec::{SmallVec, smallvec};

use super::rows::Worker;
use crate::params::params;
use crate::program::Definition;
use crate::walk::{Axes, Walk, is_wide};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// What `norm` is told. Operands are dst, src, weight and bias.
    NormParams {
        /// Where rows start.
        rows: Walk<4>,
        /// The elements of one row.
        row: Walk<4>,
        epsilon: f32,
    }
}

pub(crate) const PROGRAM: Definition = Definition {
    name: "norm",
    text: include_str!("../../programs/norm.kernel"),
    constants: &["DTYPE", "RMS", "HAS", "KEPT", "RANK", "WIDE", "VECTOR", "MODE", "HELD"],
    params: NormParams::declaration,
};

/// Vectors that a worker keeps at most.
const MAX_HELD: usize = 4;

/// Vectors that each of so many threads keeps of a row; 0 if there are too many. One less than there is room
/// for costs nothing, so that there are fewer kernels.
fn held(vectors: usize, threads: u32) -> usize {
    match vectors.div_ceil(threads as usize) {
        0..=2 => 2,
        each if each <= MAX_HELD => MAX_HELD,
        _ => 0,
    }
}

/// Size and strides of dst, src, weight and bias along one axis.
type Axis = (usize, [usize; 4]);

/// What is normalized, and by what.
pub(super) struct Norm {
    /// Only the mean square, without the mean.
    pub rms: bool,
    /// Added to the variance.
    pub epsilon: f32,
    /// Whether there is a weight.
    pub weight: bool,
    /// Whether there is a bias.
    pub bias: bool,
}

impl Norm {
    /// Weight and bias of the command.
    fn parameters<'a>(&self, command: &'a BoundCommand) -> [Option<&'a Operand<RawBuffer>>; 2] {
        let operands = NormOperands::of(command);
        [operands.weight, operands.bias]
    }

    /// Over the last axes, with parameters of their shape.
    pub fn over_last(&self, command: &BoundCommand, axes: usize, limits: &Limits) -> Lowered {
        let (dst, src) = (&command.outputs()[0].layout, &command.inputs()[0].layout);
        let parameters = self.parameters(command);
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
        self.launch(command, parameters, &rows, &row, limits)
    }

    /// Over groups of channels (axis 1) and everything behind them, with parameters per channel.
    pub fn over_groups(&self, command: &BoundCommand, groups: usize, limits: &Limits) -> Lowered {
        let (dst, src) = (&command.outputs()[0].layout, &command.inputs()[0].layout);
        let parameters = self.parameters(command);
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
        self.launch(command, parameters, &rows, &row, limits)
    }

    fn launch(
        &self,
        command: &BoundCommand,
        parameters: [Option<&Operand<RawBuffer>>; 2],
        rows: &[Axis],
        row: &[Axis],
        limits: &Limits,
    ) -> Lowered {
        let (dst, src) = (&command.outputs()[0], &command.inputs()[0]);
        if dst.layout.is_empty() {
            return Lowered::default();
        }
        let rows = Axes::merge(rows.iter().copied());
        let row = Axes::merge(row.iter().copied());
        let size = row.elements();
        let across = rows.axes[0].1[1] < row.axes[0].1[1] && rows.elements() >= 32;
        let worker = Worker::for_rows(size, across);
        let operands = [dst, src, parameters[0].unwrap_or(src), parameters[1].unwrap_or(src)];
        // Absent parameters have strides of 0 and count as dense.
        let dense = row.axes.len() == 1
            && (0..4).all(|k| row.axes[0].1[k] == 1 || k >= 2 && parameters[k - 2].is_none());
        let vector =
            if worker != Worker::Thread && dense { rows.vector(operands, size) } else { 1 };
        let has = i32::from(self.weight) | i32::from(self.bias) << 1;
        let threads = worker.threads(rows.elements(), limits);
        let held = match worker {
            Worker::Thread => 0,
            _ if vector == 1 || !size.is_multiple_of(vector) => 0,
            _ => held(size / vector, threads / worker.per_group(threads)),
        };
        let offset = |parameter: Option<&Operand<RawBuffer>>| {
            parameter.map_or(0, |parameter| parameter.layout.offset())
        };
        let offsets = [
            dst.layout.offset(),
            src.layout.offset(),
            offset(parameters[0]),
            offset(parameters[1]),
        ];
        let constants = [
            src.layout.dtype() as i32,
            self.rms.into(),
            has,
            rows.rank(),
            row.rank(),
            is_wide(operands).into(),
            vector as i32,
            worker as i32,
            held as i32,
        ];
        let params =
            NormParams { rows: rows.walk(offsets), row: row.walk([0; 4]), epsilon: self.epsilon };
        let launch = Launch {
            key: Key::new(Program::Norm, &constants),
            groups: worker.groups(rows.elements(), threads, limits),
            threads,
            slots: operands.iter().map(|&operand| Slot::from(operand)).collect(),
            params: params.pack(),
        };
        Lowered { launches: smallvec![launch], workspace: 0 }
    }
}
