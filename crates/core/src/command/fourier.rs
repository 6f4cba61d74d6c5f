//! Fourier transforms.

use super::check::{narrow, small};
use super::{BufferLike, Command, Op, Operand};
use crate::Result;

impl<B: BufferLike> Command<B> {
    /// Discrete Fourier transform along an axis other than the last.
    ///
    /// The last axis of both operands holds real and imaginary parts. An input whose last axis has size 1 is real.
    /// The length of the transform is the size of the axis. The inverse divides by the length; the forward transform
    /// does not.
    ///
    /// With `onesided`, only the first `length / 2 + 1` bins exist; the others follow from symmetry. A forward
    /// transform then takes a real input and gives that many bins. An inverse transform takes that many bins and
    /// gives a real `dst`.
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
        // The side that is not halved has the full length.
        let whole = if inverse && onesided { &dst } else { &src };
        let length = whole.layout.shape().get(axis).copied().unwrap_or(0);
        let op = Op::Dft { axis: small(axis), inverse, onesided, length };
        Self::new(op, [dst], [src])
    }

    /// Short-time Fourier transform: the transform of each frame, multiplied by a window. A frame has `frame`
    /// samples, and frames begin `hop` samples apart.
    ///
    /// `signal` is `[batch, samples, 1]`, or `[batch, samples, 2]` for complex samples. The window is `[frame]`.
    /// `dst` is `[batch, (samples - frame) / hop + 1, bins, 2]`, where `bins` is `frame`. With `onesided`, samples
    /// must be real and `bins` is `frame / 2 + 1`.
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
        let (frame, hop) = (narrow("stft", "frame", frame)?, narrow("stft", "hop", hop)?);
        let op = Op::Stft { frame, hop, onesided, window: window.is_some() };
        Self::new(op, [dst], std::iter::once(signal).chain(window))
    }
}
