//! Fourier transforms.

use super::check::Check;
use super::{BufferLike, Command, Op, Operand};
use crate::Result;

impl<B: BufferLike> Command<B> {
    /// Discrete Fourier transform along an axis other than the last.
    ///
    /// The last axis of both operands holds real and imaginary parts; an input whose last axis has size
    /// 1 is real. The length of the transform is the size of the axis. With `onesided`, only the first
    /// `length / 2 + 1` elements are there, the others follow from symmetry: a forward transform takes
    /// a real input and gives that many, an inverse transform takes that many and gives `dst`, which is
    /// real. The inverse divides by the length; the forward transform does not.
    ///
    /// # Errors
    ///
    /// Types that differ or are not floating point, shapes that do not match, an axis that does not
    /// exist or is the last, or operands that do not fit their buffers or overlap.
    pub fn dft(
        dst: Operand<B>,
        src: Operand<B>,
        axis: usize,
        inverse: bool,
        onesided: bool,
    ) -> Result<Self> {
        let check = Check("dft");
        check.float(&dst.layout)?;
        check.same_dtype(&src.layout, &dst.layout)?;
        let (from, to) = (src.layout.shape(), dst.layout.shape());
        let shapes = || format!("input {from:?} and output {to:?}");
        let last = from.len().saturating_sub(1);
        check.that(from.len() >= 2 && from.len() == to.len(), || {
            format!("{}: needs the same rank, 2 or more", shapes())
        })?;
        check.that(axis < last, || format!("axis {axis} of {last} before the last"))?;
        let rest = (0..last).all(|other| other == axis || from[other] == to[other]);
        check.that(rest, || format!("{} differ outside axis {axis}", shapes()))?;
        let (real_input, real_output) = match (inverse, onesided) {
            (_, false) => (matches!(from[last], 1 | 2), to[last] == 2),
            (false, true) => (from[last] == 1, to[last] == 2),
            (true, true) => (from[last] == 2, to[last] == 1),
        };
        check.that(real_input && real_output, || {
            format!("{}: last axes do not fit this transform", shapes())
        })?;
        let fits = match (inverse, onesided) {
            (_, false) => from[axis] == to[axis],
            (false, true) => to[axis] == from[axis] / 2 + 1,
            (true, true) => from[axis] == to[axis] / 2 + 1,
        };
        check.that(fits, || format!("{}: sizes of axis {axis} do not match", shapes()))?;
        check.that(from[axis] > 0 && to[axis] > 0, || "a transform of no elements".into())?;
        let op = Op::Dft { axis: axis as u8, inverse, onesided };
        Self::assemble(op, [dst], [src])
    }

    /// Short-time Fourier transform: that of every frame of `frame` samples, `hop` apart, multiplied
    /// with a window.
    ///
    /// `signal` is `[batch, samples, 1]`, or `[batch, samples, 2]` for complex samples, the window is
    /// `[frame]`, and `dst` is `[batch, (samples - frame) / hop + 1, bins, 2]` where `bins` is `frame`,
    /// or `frame / 2 + 1` with `onesided`, for which samples are real.
    ///
    /// # Errors
    ///
    /// Types that differ or are not floating point, shapes that do not match, a frame that is empty or
    /// longer than the signal, a hop of 0, or operands that do not fit their buffers or overlap.
    pub fn stft(
        dst: Operand<B>,
        signal: Operand<B>,
        window: Option<Operand<B>>,
        frame: usize,
        hop: usize,
        onesided: bool,
    ) -> Result<Self> {
        let check = Check("stft");
        check.float(&dst.layout)?;
        for input in [&signal].into_iter().chain(&window) {
            check.same_dtype(&input.layout, &dst.layout)?;
        }
        let (from, to) = (signal.layout.shape(), dst.layout.shape());
        let parts = if onesided { 1..=1 } else { 1..=2 };
        check.that(from.len() == 3 && parts.contains(&from[2]), || {
            format!("a signal of shape {from:?} does not fit this transform")
        })?;
        let samples = from[1];
        check.that((1..=samples).contains(&frame) && u32::try_from(frame).is_ok(), || {
            format!("frames of {frame} of {samples} samples")
        })?;
        check.that(hop > 0 && u32::try_from(hop).is_ok(), || format!("a hop of {hop}"))?;
        let bins = if onesided { frame / 2 + 1 } else { frame };
        let wanted = [from[0], (samples - frame) / hop + 1, bins, 2];
        check.that(to == wanted, || format!("output has shape {to:?}, needs {wanted:?}"))?;
        if let Some(window) = &window {
            check.that(window.layout.shape() == [frame], || {
                format!("a window of shape {:?}, needs [{frame}]", window.layout.shape())
            })?;
        }
        let op = Op::Stft { frame: frame as u32, hop: hop as u32, onesided };
        let inputs = std::iter::once(signal).chain(window);
        Self::assemble(op, [dst], inputs)
    }
}
