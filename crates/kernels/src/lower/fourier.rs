//! Fourier transforms: first a table of roots of unity, then every output by the definition.

use millstream_core::{BoundCommand, DType, Operand, RawBuffer, StftOperands};
use smallvec::smallvec;

use crate::params::params;
use crate::program::Definition;
use crate::walk::{Axes, Walk, is_wide};
use crate::{Key, Launch, Limits, Lowered, Program, Slot};

params! {
    /// The params of `fourier_roots`.
    RootsParams { length: u64 }
}

params! {
    /// The params of `fourier`.
    FourierParams {
        /// The start of each transform: output, then input.
        lines: Walk<2>,
        length: u64,
        inputs: u64,
        outputs: u64,
        /// The distance from number to number, and from real to imaginary part.
        src_step: u64,
        src_part: u64,
        dst_step: u64,
        dst_part: u64,
        window_offset: u64,
        window_step: u64,
        inverse: u32,
        complex_input: u32,
        complex_output: u32,
        has_window: u32,
    }
}

pub(crate) const ROOTS_PROGRAM: Definition = Definition {
    name: "fourier_roots",
    text: include_str!("../../programs/fourier_roots.kernel"),
    constants: &["DTYPE"],
    params: RootsParams::declaration,
};

pub(crate) const PROGRAM: Definition = Definition {
    name: "fourier",
    text: include_str!("../../programs/fourier.kernel"),
    constants: &["DTYPE", "MIRRORED", "RANK", "WIDE"],
    params: FourierParams::declaration,
};

type Raw = Operand<RawBuffer>;

/// A transform of every line of `src` to a line of `dst`.
struct Transform<'a> {
    dst: &'a Raw,
    src: &'a Raw,
    window: Option<&'a Raw>,
    lines: Axes<2>,
    length: usize,
    /// The axes of numbers in `dst` and `src`. The axis of real and imaginary parts is the last.
    axes: [usize; 2],
    inverse: bool,
    mirrored: bool,
}

/// `dst ← src` along an axis.
pub(super) fn lower_dft(
    command: &BoundCommand,
    axis: usize,
    inverse: bool,
    onesided: bool,
    limits: &Limits,
) -> Lowered {
    let (dst, src) = (&command.outputs()[0], &command.inputs()[0]);
    let others = (0..dst.layout.rank() - 1).filter(|&other| other != axis).map(|other| {
        let strides = [dst, src].map(|operand| operand.layout.strides()[other]);
        (dst.layout.shape()[other], strides)
    });
    let mirrored = inverse && onesided;
    let transform = Transform {
        dst,
        src,
        window: None,
        lines: Axes::merge(others),
        length: if mirrored { dst.layout.shape()[axis] } else { src.layout.shape()[axis] },
        axes: [axis; 2],
        inverse,
        mirrored,
    };
    transform.lower(limits)
}

/// `dst ← signal, [window]`, frame by frame.
pub(super) fn lower_stft(
    command: &BoundCommand,
    frame: usize,
    hop: usize,
    limits: &Limits,
) -> Lowered {
    let StftOperands { dst, signal, window } = StftOperands::of(command);
    let (to, from) = (dst.layout.strides(), signal.layout.strides());
    let (batch, frames) = (dst.layout.shape()[0], dst.layout.shape()[1]);
    let lines = [(batch, [to[0], from[0]]), (frames, [to[1], hop * from[1]])];
    let transform = Transform {
        dst,
        src: signal,
        window,
        lines: Axes::merge(lines.into_iter()),
        length: frame,
        axes: [2, 1],
        inverse: false,
        mirrored: false,
    };
    transform.lower(limits)
}

impl Transform<'_> {
    fn lower(&self, limits: &Limits) -> Lowered {
        let mut lowered = Lowered::default();
        if self.dst.layout.is_empty() {
            return lowered;
        }
        let dtype = self.dst.layout.dtype();
        let exact = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let roots = lowered.reserve(2 * self.length * exact.size());
        let threads = limits.usual_threads();
        lowered.launches.push(Launch {
            key: Key::new(Program::FourierRoots, &[exact as i32]),
            groups: [limits.groups_for(self.length, threads), 1, 1],
            threads,
            slots: smallvec![roots],
            params: RootsParams { length: self.length as u64 }.pack(),
        });
        let part = |operand: &Raw| {
            let last = operand.layout.rank() - 1;
            let complex = operand.layout.shape()[last] == 2;
            (u32::from(complex), operand.layout.strides()[last] as u64)
        };
        let ((complex_output, dst_part), (complex_input, src_part)) =
            (part(self.dst), part(self.src));
        let outputs = self.dst.layout.shape()[self.axes[0]];
        let params = FourierParams {
            lines: self.lines.walk([self.dst.layout.offset(), self.src.layout.offset()]),
            length: self.length as u64,
            inputs: self.src.layout.shape()[self.axes[1]] as u64,
            outputs: outputs as u64,
            src_step: self.src.layout.strides()[self.axes[1]] as u64,
            src_part,
            dst_step: self.dst.layout.strides()[self.axes[0]] as u64,
            dst_part,
            window_offset: self.window.map_or(0, |window| window.layout.offset() as u64),
            window_step: self.window.map_or(0, |window| window.layout.strides()[0] as u64),
            inverse: self.inverse.into(),
            complex_input,
            complex_output,
            has_window: self.window.is_some().into(),
        };
        let wide = is_wide([self.dst, self.src].into_iter().chain(self.window));
        let constants = [dtype as i32, self.mirrored.into(), self.lines.rank(), wide.into()];
        let items = self.lines.elements() * outputs;
        lowered.launches.push(Launch {
            key: Key::new(Program::Fourier, &constants),
            groups: [limits.groups_for(items, threads), 1, 1],
            threads,
            slots: smallvec![
                Slot::from(self.dst),
                Slot::from(self.src),
                Slot::from(self.window.unwrap_or(self.dst)),
                roots,
            ],
            params: params.pack(),
        });
        lowered
    }
}
