//! The loops of all pooling.

use millstream_core::{Operand, PoolOrder, PoolParams, RawBuffer};

use super::axis::Axis;
use crate::kernels::shared::block::base;
use crate::kernels::shared::number::Stored;
use crate::kernels::shared::parallel::{Parallel, SendPtr, parallel_for};
use crate::kernels::shared::simd::{SimdFn, vectorized};

/// Neighboring windows that are computed together.
const TOGETHER: usize = 256;

/// With fewer windows in a row than this, one after the other is quicker.
const FEW: usize = 4;

/// What is known of a window: how many taps it has, and which plane it lies in.
pub(super) struct Counts {
    pub inside: usize,
    pub padded: usize,
    pub plane: usize,
}

/// All windows of a command.
pub(super) struct Windows {
    /// Always three; those that the command does not have come first.
    axes: [Axis; 3],
    /// Batch and channels, as axes of which each element is a window of its own.
    outer: [Axis; 2],
}

impl Windows {
    pub fn new(
        params: &PoolParams,
        dst: &Operand<RawBuffer>,
        indices: Option<&Operand<RawBuffer>>,
        src: &Operand<RawBuffer>,
    ) -> Self {
        let (to, from) = (&dst.layout, &src.layout);
        let place = |axis: usize| Axis {
            size: from.shape()[axis],
            step: from.strides()[axis],
            windows: to.shape()[axis],
            outputs: [
                to.strides()[axis],
                indices.map_or(0, |indices| indices.layout.strides()[axis]),
            ],
            ..Axis::NONE
        };
        let spatial = usize::from(params.spatial);
        let mut axes = [Axis::NONE; 3];
        for (i, axis) in axes[3 - spatial..].iter_mut().enumerate() {
            *axis = Axis {
                kernel: params.kernel[i] as usize,
                stride: params.stride[i] as usize,
                dilation: params.dilation[i] as usize,
                before: params.pad_before[i] as usize,
                after: params.pad_after[i] as usize,
                ..place(i + 2)
            };
        }
        // Channels that are neighbors in memory become the last axis, along which every window has one element. The
        // number of an element in its plane is then another, so not where it is asked for.
        let last = to.strides()[1] == 1 && from.strides()[1] == 1 && to.shape()[1] > 1;
        if last && spatial < 3 && indices.is_none() {
            axes.rotate_left(1);
            axes[2] = place(1);
            return Windows { axes, outer: [place(0), Axis::NONE] };
        }
        Windows { axes, outer: [place(0), place(1)] }
    }

    /// The place of the element with an index in a plane, counted in an order.
    pub fn place(&self, order: PoolOrder, plane: usize, index: usize) -> usize {
        let [a, b, c] = &self.axes;
        let size = a.size * b.size * c.size;
        match order {
            PoolOrder::Channel => index,
            PoolOrder::Whole => plane * size + index,
            PoolOrder::WholeByColumns => {
                let (rest, z) = (index / c.size, index % c.size);
                let (y, x) = (rest / b.size, rest % b.size);
                plane * size + (z * b.size + x) * a.size + y
            }
        }
    }

    /// Combines the elements of every window by `step(partial, element, index in the plane)`, in
    /// row-major order, and hands the result to `store` with its position in both outputs.
    ///
    /// # Safety
    ///
    /// As for [`execute`](crate::kernels::execute), and the input has the type `T`.
    pub unsafe fn fold<T: Stored, P: Copy + Send + Sync>(
        &self,
        src: &Operand<RawBuffer>,
        parallel: &dyn Parallel,
        start: P,
        step: impl Fn(P, T::Compute, usize) -> P + Copy + Sync,
        store: impl Fn([usize; 2], P, Counts) + Sync,
    ) {
        // SAFETY: passed on.
        let from = SendPtr::<T>::new(unsafe { base(src) });
        let [a, b, c] = &self.axes;
        let rows = self.outer[0].windows * self.outer[1].windows * a.windows * b.windows;
        let together = if c.windows < FEW { 1 } else { TOGETHER };
        // Channels: every window has one element along them, which need not be counted.
        let single = (c.kernel, c.stride, c.before, c.after) == (1, 1, 0, 0);
        let work = a.kernel.saturating_mul(b.kernel).saturating_mul(c.kernel);
        parallel_for(parallel, rows, work.saturating_mul(c.windows), |range| {
            for row in range {
                let mut rest = row;
                let mut split = |axis: &Axis| {
                    let at = rest % axis.windows;
                    rest /= axis.windows;
                    at
                };
                let (j, i) = (split(b), split(a));
                let outer = [split(&self.outer[1]), split(&self.outer[0])];
                let [channel, batch] = outer;
                let plane = batch * self.outer[0].step + channel * self.outer[1].step;
                let place = |output: usize| {
                    batch * self.outer[0].outputs[output]
                        + channel * self.outer[1].outputs[output]
                        + i * a.outputs[output]
                        + j * b.outputs[output]
                };
                let places = [place(0), place(1)];
                let (inside, padded) = (
                    [a.inside(i), b.inside(j)].map(|(first, end)| end - first),
                    [a.padded(i), b.padded(j)],
                );
                for first in (0..c.windows).step_by(together) {
                    let mut partials = [start; TOGETHER];
                    let partials = &mut partials[..together.min(c.windows - first)];
                    // SAFETY: the plane is one of the input, and the windows exist.
                    unsafe {
                        self.row::<T, P>(from.get().add(plane), [i, j, first], partials, step)
                    };
                    for (k, &mut partial) in (first..).zip(partials) {
                        let (long, long_padded) = if single {
                            (1, 1)
                        } else {
                            let (low, high) = c.inside(k);
                            (high - low, c.padded(k))
                        };
                        let counts = Counts {
                            inside: inside[0] * inside[1] * long,
                            padded: padded[0] * padded[1] * long_padded,
                            plane: batch * self.outer[1].windows + channel,
                        };
                        let position = |output: usize| places[output] + k * c.outputs[output];
                        store([position(0), position(1)], partial, counts);
                    }
                }
            }
        });
    }

    /// Combines the elements of neighboring windows, from the one at `[i, j, k]` on.
    ///
    /// # Safety
    ///
    /// `plane` is the first element of a channel, whose elements nobody writes.
    unsafe fn row<T: Stored, P: Copy>(
        &self,
        plane: *const T,
        [i, j, k]: [usize; 3],
        partials: &mut [P],
        step: impl Fn(P, T::Compute, usize) -> P + Copy,
    ) {
        let [a, b, c] = &self.axes;
        let taps = |axis: &Axis, window: usize| {
            let (first, end) = axis.inside(window);
            first..end
        };
        for y in taps(a, i).map(|tap| a.place(i, tap)) {
            for x in taps(b, j).map(|tap| b.place(j, tap)) {
                // SAFETY: the coordinates are inside the input.
                let line = unsafe { plane.add(y * a.step + x * b.step) };
                let index = (y * b.size + x) * c.size;
                if let [partial] = &mut *partials {
                    for z in taps(c, k).map(|tap| c.place(k, tap)) {
                        // SAFETY: as above.
                        let value = unsafe { line.add(z * c.step).read() }.widen();
                        *partial = step(*partial, value, index + z);
                    }
                    continue;
                }
                for tap in 0..c.kernel {
                    let (low, high) = c.reached(tap, k, k + partials.len());
                    if low == high {
                        continue;
                    }
                    let z = c.place(low, tap);
                    vectorized(Along {
                        partials: &mut partials[low - k..high - k],
                        // SAFETY: as above.
                        from: unsafe { line.add(z * c.step) },
                        stride: c.stride * c.step,
                        index: index + z,
                        next: c.stride,
                        step,
                    });
                }
            }
        }
    }
}

/// One tap of neighboring windows. All elements are inside the input.
struct Along<'a, T, P, F> {
    partials: &'a mut [P],
    from: *const T,
    stride: usize,
    index: usize,
    next: usize,
    step: F,
}

impl<T: Stored, P: Copy, F: Fn(P, T::Compute, usize) -> P> SimdFn for Along<'_, T, P, F> {
    #[inline(always)]
    fn run(self) {
        let Along { partials, from, stride, index, next, step } = self;
        if stride == 1 {
            // SAFETY: as many elements as windows lie one after another inside the input.
            let values = unsafe { std::slice::from_raw_parts(from, partials.len()) };
            for (i, (partial, value)) in partials.iter_mut().zip(values).enumerate() {
                *partial = step(*partial, value.widen(), index + i * next);
            }
        } else {
            for (i, partial) in partials.iter_mut().enumerate() {
                // SAFETY: the element is inside the input.
                let value = unsafe { from.add(i * stride).read() };
                *partial = step(*partial, value.widen(), index + i * next);
            }
        }
    }
}
