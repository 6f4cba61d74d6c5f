//! Fourier transforms.
//!
//! Each transform is computed by itself, in `f32` or `f64`, with roots rounded once from `f64`.

mod complex;
mod fft;

#[cfg(test)]
mod tests;

use millstream_core::{DType, Layout, Operand, RawBuffer};

use crate::kernels::shared::block::base;
use crate::kernels::shared::fault::{Result, try_share};
use crate::kernels::shared::number::{Float, Stored, with_float};
use crate::kernels::shared::parallel::{Parallel, Shared};
use crate::kernels::shared::scratch::{collected, filled};
use crate::kernels::shared::walk::Walk;
use complex::Complex;
use fft::Fft;

/// Work of a transform for each element and doubling of the length.
const WORK: usize = 4;

/// A line of numbers in memory: distances between numbers and between their parts.
#[derive(Clone, Copy)]
struct Line {
    stride: usize,
    part: usize,
    /// Whether numbers have an imaginary part.
    complex: bool,
}

impl Line {
    fn new(layout: &Layout, axis: usize) -> Self {
        let last = layout.rank() - 1;
        Line {
            stride: layout.strides()[axis],
            part: layout.strides()[last],
            complex: layout.shape()[last] == 2,
        }
    }

    /// # Safety
    ///
    /// The number belongs to a line that begins at `first`, and may be read.
    unsafe fn read<T: Stored<Compute: Float>>(
        self,
        first: *const T,
        index: usize,
    ) -> Complex<T::Compute> {
        // SAFETY: passed on.
        unsafe {
            let re = first.add(index * self.stride);
            let zero = T::Compute::ZERO;
            let im = if self.complex { re.add(self.part).read().widen() } else { zero };
            Complex { re: re.read().widen(), im }
        }
    }

    /// # Safety
    ///
    /// The number belongs to a line that begins at `first`, and only the caller touches it.
    unsafe fn write<T: Stored<Compute: Float>>(
        self,
        first: *mut T,
        index: usize,
        value: Complex<T::Compute>,
    ) {
        // SAFETY: passed on.
        unsafe {
            let re = first.add(index * self.stride);
            re.write(T::narrow(value.re));
            if self.complex {
                re.add(self.part).write(T::narrow(value.im));
            }
        }
    }
}

/// Numbers that one thread works with.
struct Buffers<F> {
    from: Vec<Complex<F>>,
    to: Vec<Complex<F>>,
    scratch: Vec<Complex<F>>,
}

impl<F: Float> Buffers<F> {
    fn new(fft: &Fft<F>, length: usize) -> Result<Self> {
        let numbers = |count| filled(count, Complex::ZERO);
        Ok(Buffers {
            from: numbers(length)?,
            to: numbers(length)?,
            scratch: numbers(fft.scratch())?,
        })
    }

    fn transform(&mut self, fft: &Fft<F>) {
        fft.transform(&self.from, &mut self.to, &mut self.scratch);
    }
}

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn dft(
    axis: usize,
    inverse: bool,
    onesided: bool,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) -> Result {
    if dst.layout.is_empty() {
        return Ok(());
    }
    let layouts = [&dst.layout, &src.layout];
    let lines = Walk::over(layouts, (0..dst.layout.rank() - 1).filter(|&other| other != axis));
    let [to_line, from_line] = layouts.map(|layout| Line::new(layout, axis));
    let [outputs, inputs] = layouts.map(|layout| layout.shape()[axis]);
    let length = if inverse { outputs } else { inputs };
    with_float!(dst.layout.dtype(), T => {
        type F = <T as Stored>::Compute;
        let fft = Fft::<F>::new(length)?;
        let scale = if inverse { F::from_f64(1.0 / length as f64) } else { F::ONE };
        // SAFETY: passed on.
        let (to, from) =
            unsafe { (Shared::new(base::<T>(dst)), Shared::new(base::<T>(src))) };
        try_share(parallel, lines.elements(), work(length), |range| {
            let mut buffers = Buffers::new(&fft, length)?;
            for index in range {
                // SAFETY: lines are disjoint parts of the output; the rest is passed on.
                unsafe {
                    let from = from.get().add(lines.position(1, index)).cast_const();
                    for (at, number) in buffers.from[..inputs].iter_mut().enumerate() {
                        *number = from_line.read(from, at);
                    }
                    if inverse && onesided {
                        complete(&mut buffers.from);
                    }
                    if inverse {
                        buffers.from.iter_mut().for_each(|number| *number = number.exchanged());
                    }
                    buffers.transform(&fft);
                    let to = to.get().add(lines.position(0, index));
                    for (at, &number) in buffers.to[..outputs].iter().enumerate() {
                        let number = if inverse { number.exchanged() } else { number };
                        let number = Complex { re: number.re * scale, im: number.im * scale };
                        to_line.write(to, at, number);
                    }
                }
            }
            Ok(())
        })
    })
}

/// The other half of numbers whose transform is real. What the first one, and that of half the length,
/// have of imaginary parts cannot be and does not count.
fn complete<F: Float>(numbers: &mut [Complex<F>]) {
    let length = numbers.len();
    numbers[0].im = F::ZERO;
    if length.is_multiple_of(2) {
        numbers[length / 2].im = F::ZERO;
    }
    for index in length / 2 + 1..length {
        numbers[index] = numbers[length - index].conjugate();
    }
}

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn stft(
    frame: usize,
    hop: usize,
    dst: &Operand<RawBuffer>,
    signal: &Operand<RawBuffer>,
    window: Option<&Operand<RawBuffer>>,
    parallel: &dyn Parallel,
) -> Result {
    if dst.layout.is_empty() {
        return Ok(());
    }
    let [frames, bins] = [dst.layout.shape()[1], dst.layout.shape()[2]];
    let (to_line, from_line) = (Line::new(&dst.layout, 2), Line::new(&signal.layout, 1));
    let (to_strides, from_strides) = (dst.layout.strides(), signal.layout.strides());
    with_float!(dst.layout.dtype(), T => {
        type F = <T as Stored>::Compute;
        let fft = Fft::<F>::new(frame)?;
        // SAFETY: passed on.
        let (to, from, window_values) = unsafe {
            let window_values: Vec<F> = match window {
                Some(window) => {
                    let (first, stride) = (base::<T>(window), window.layout.strides()[0]);
                    collected((0..frame).map(|index| first.add(index * stride).read().widen()))?
                }
                None => filled(frame, F::ONE)?,
            };
            (Shared::new(base::<T>(dst)), Shared::new(base::<T>(signal)), window_values)
        };
        try_share(parallel, dst.layout.shape()[0] * frames, work(frame), |range| {
            let mut buffers = Buffers::new(&fft, frame)?;
            for index in range {
                let (batch, index) = (index / frames, index % frames);
                // SAFETY: frames are disjoint parts of the output; the rest is passed on.
                unsafe {
                    let start = batch * from_strides[0] + index * hop * from_strides[1];
                    let from = from.get().add(start).cast_const();
                    for (at, number) in buffers.from.iter_mut().enumerate() {
                        let Complex { re, im } = from_line.read(from, at);
                        *number = Complex { re: re * window_values[at], im: im * window_values[at] };
                    }
                    buffers.transform(&fft);
                    let to = to.get().add(batch * to_strides[0] + index * to_strides[1]);
                    for (at, &number) in buffers.to[..bins].iter().enumerate() {
                        to_line.write(to, at, number);
                    }
                }
            }
            Ok(())
        })
    })
}

fn work(length: usize) -> usize {
    length.saturating_mul(WORK * (length.ilog2() as usize + 1))
}
