//! Pooling.

use super::{BufferLike, Command, Op, Operand, PoolParams};
use crate::Result;

impl<B: BufferLike> Command<B> {
    /// Pooling of `[batch, channels, …]` over 1 to 3 spatial axes.
    ///
    /// The caller chooses between two output sizes: the number of windows that fit in the padded input, or one window
    /// more if it begins inside the input or the padding before it (`ceil_mode` of ONNX and PyTorch). Taps beyond the
    /// padding after the input are ignored, also by a mean that includes padding.
    ///
    /// A maximum may come with its index, counted as [`PoolOrder`](super::PoolOrder) says. Of equal elements the
    /// first in row-major order counts. NaN counts as the largest.
    ///
    /// # Errors
    ///
    /// A mean of integers or with indices, `bool`, sizes or types that do not match, a kernel, stride or dilation of
    /// 0, a window without an element, or operands that do not fit their buffers or overlap.
    pub fn pool(
        dst: Operand<B>,
        indices: Option<Operand<B>>,
        src: Operand<B>,
        params: PoolParams,
    ) -> Result<Self> {
        let params = PoolParams { indices: indices.is_some(), ..params };
        let op = Op::Pool { params: Box::new(params) };
        Self::new(op, std::iter::once(dst).chain(indices), [src])
    }
}

/// The window along one axis. Parameters are below 2^32 and sizes below 2^63, so sums and products of two of them do
/// not overflow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    kernel: u128,
    stride: u128,
    dilation: u128,
    before: u128,
    after: u128,
}

impl Window {
    pub(super) fn new(params: &PoolParams, axis: usize) -> Self {
        Window {
            kernel: params.kernel[axis].into(),
            stride: params.stride[axis].into(),
            dilation: params.dilation[axis].into(),
            before: params.pad_before[axis].into(),
            after: params.pad_after[axis].into(),
        }
    }

    /// The distance from the first tap to the last.
    fn reach(&self) -> u128 {
        self.dilation * (self.kernel - 1)
    }

    /// The numbers of windows that the two rules give for an input of this size.
    pub(super) fn sizes(&self, size: usize) -> (u128, u128) {
        let size = size as u128;
        let padded = size + self.before + self.after;
        let Some(room) = padded.checked_sub(self.reach() + 1) else { return (0, 0) };
        let (floor, ceil) = (room / self.stride + 1, room.div_ceil(self.stride) + 1);
        // The additional window must begin before the padding after the input.
        let late = (ceil - 1) * self.stride >= size + self.before;
        (floor, if late { floor } else { ceil })
    }

    /// Whether each of `windows` windows has a tap inside an input of this size. There is at least one window.
    ///
    /// There may be billions of windows, so they are counted and not checked one by one.
    pub(super) fn all_have_elements(&self, windows: u128, size: usize) -> bool {
        let size = size as u128;
        // If the first window reaches the input, so do all others. If the last does not begin after the input,
        // neither does any other.
        if self.reach() < self.before || (windows - 1) * self.stride >= self.before + size {
            return false;
        }
        // What remains are windows that begin in the padding before the input and might step over the whole input.
        // The first tap at or after the beginning of the input lies `(start - before) mod dilation` elements after
        // it.
        if self.dilation <= size {
            return true;
        }
        let in_padding = windows.min(self.before.div_ceil(self.stride));
        let (step, modulus) = (self.stride % self.dilation, self.dilation);
        let first = (modulus - self.before % modulus) % modulus;
        // Adding `modulus - size` to a remainder reaches the next multiple of the modulus exactly if the remainder is
        // at least `size`. That counts them.
        let above = floor_sum(in_padding, modulus, step, first + modulus - size);
        above == floor_sum(in_padding, modulus, step, first)
    }
}

/// The sum of `(step * i + first) / modulus`, rounded down, over all `i` below `count`. It uses Euclid's algorithm,
/// so the number of rounds grows with the number of digits.
///
/// `modulus` is not 0. All numbers are below 2^34, so nothing overflows.
fn floor_sum(mut count: u128, mut modulus: u128, mut step: u128, mut first: u128) -> u128 {
    let mut sum = 0;
    while count > 0 {
        sum += count * (count - 1) / 2 * (step / modulus) + count * (first / modulus);
        (step, first) = (step % modulus, first % modulus);
        // The lattice points below the line, counted along the other axis.
        let highest = step * count + first;
        (count, first) = (highest / modulus, highest % modulus);
        (modulus, step) = (step, modulus);
        if modulus == 0 {
            break;
        }
    }
    sum
}

#[cfg(test)]
mod tests;
