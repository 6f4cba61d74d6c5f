//! Interpolation between several elements per axis.
//!
//! The axes are split at the last one that changes. For each row of the output along that axis, the
//! rows of the input that its other axes name are first mixed to one, element by element, and this is
//! then mixed along the axis. Both loops run over neighbors in memory. The order in which the elements
//! of one output are added depends on its taps alone.
//!
//! Linear interpolation between two elements per axis takes the rows as they are instead: each element
//! is multiplied by the product of its weights, and the sum runs through the first row, then the
//! second. Dequantized numbers often lie exactly halfway between two steps after it, so that the last
//! bit of the sum decides which way they are quantized; this order gives the bits of onnxruntime.

use millstream_core::{Operand, RawBuffer};

use super::integer::to_integer;
use super::taps::Taps;
use crate::kernels::shared::block::{BLOCK, BlockBuffer};
use crate::kernels::shared::fault::{Result, try_parallel_for};
use crate::kernels::shared::number::Float;
use crate::kernels::shared::operand::{Computed, Input, Output};
use crate::kernels::shared::parallel::{CHUNK_ELEMENTS, Parallel};
use crate::kernels::shared::scratch::reserve;
use crate::kernels::shared::simd::{SimdFn, vectorized};
use crate::kernels::shared::walk::Walk;

/// `taps` has one entry per axis; no axis behind `last` changes. With `direct`, rows are not mixed
/// before they are mixed along that axis.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn resize<C: Float + Computed>(
    taps: &[Taps],
    last: usize,
    direct: bool,
    outside: f32,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) -> Result {
    let rank = dst.layout.rank();
    let behind: usize = dst.layout.shape()[last + 1..].iter().product();
    let from_size = src.layout.shape()[last];
    // Long slices behind the axis are split, so that a row stays in the cache.
    let part = (CHUNK_ELEMENTS / from_size).clamp(1, behind);
    let parts = behind.div_ceil(part);
    // SAFETY: passed on.
    let interpolator = unsafe {
        let is_integer = dst.layout.dtype().is_int();
        Interpolator::<C> {
            taps,
            last,
            direct,
            target: Walk::over([&dst.layout], last..rank),
            source: Walk::over([&src.layout], last..rank),
            output: Output::new(dst, 0),
            input: Input::new(src, 0, dst),
            is_integer,
            // As a conversion does it.
            outside: C::from_f32(if is_integer { outside.trunc() } else { outside }),
            behind,
            sizes: [from_size, dst.layout.shape()[last]],
        }
    };
    let rows: usize = dst.layout.shape()[..last].iter().product();
    let work = part.saturating_mul(from_size.saturating_add(2 * dst.layout.shape()[last]));
    try_parallel_for(parallel, rows * parts, work, |range| {
        let mut mixed = Vec::new();
        let mut sources = Vec::new();
        let mut weights = Vec::new();
        for item in range {
            let (row, first) = (item / parts, item % parts * part);
            let len = part.min(behind - first);
            let (target, inside) = interpolator.sources(row, dst, src, &mut sources)?;
            // SAFETY: rows and parts are disjoint in the output, and the sources are rows of the
            // input.
            unsafe {
                if inside {
                    interpolator.mix(&sources, first, len, &mut mixed, &mut weights)?;
                    interpolator.write(target, Some((&mixed, &weights)), first, len);
                } else {
                    interpolator.write(target, None, first, len);
                }
            }
        }
        Ok(())
    })
}

struct Interpolator<'a, C> {
    taps: &'a [Taps],
    last: usize,
    /// Whether rows are only mixed along the axis.
    direct: bool,
    /// One row of output and input, from the axis on.
    target: Walk<1>,
    source: Walk<1>,
    output: Output<C>,
    input: Input<C>,
    is_integer: bool,
    outside: C,
    /// Elements behind the axis.
    behind: usize,
    /// Sizes of the axis in input and output.
    sizes: [usize; 2],
}

impl<C: Float + Computed> Interpolator<'_, C> {
    /// The rows of the input, and their weights, that make a row of the output. Gives the position of
    /// the row in the output, and whether it lies inside the input.
    fn sources(
        &self,
        row: usize,
        dst: &Operand<RawBuffer>,
        src: &Operand<RawBuffer>,
        sources: &mut Vec<(usize, f64)>,
    ) -> Result<(usize, bool)> {
        sources.clear();
        sources.push((0, 1.0));
        let (mut rest, mut target, mut inside) = (row, 0, true);
        for axis in (0..self.last).rev() {
            let size = dst.layout.shape()[axis];
            let at = rest % size;
            rest /= size;
            target += at * dst.layout.strides()[axis];
            let Some(taps) = self.taps[axis].at(at) else {
                inside = false;
                continue;
            };
            let (stride, known) = (src.layout.strides()[axis], sources.len());
            reserve(sources, known.saturating_mul(taps.len()))?;
            // The first tap takes the place of what is there, the others are added behind it.
            for &(place, weight) in &taps[1..] {
                for i in 0..known {
                    let (position, product) = sources[i];
                    sources.push((position + place * stride, product * weight));
                }
            }
            for source in &mut sources[..known] {
                source.0 += taps[0].0 * stride;
                source.1 *= taps[0].1;
            }
        }
        Ok((target, inside))
    }

    /// Mixes rows of the input to one: of each slice behind the axis the elements from `first` on.
    /// Gives the weights of the rows that are left: 1, or those of the sources, whose rows then follow
    /// each other.
    ///
    /// # Safety
    ///
    /// The sources are rows of the input, which nobody writes.
    unsafe fn mix(
        &self,
        sources: &[(usize, f64)],
        first: usize,
        len: usize,
        mixed: &mut Vec<C>,
        weights: &mut Vec<C>,
    ) -> Result {
        mixed.clear();
        weights.clear();
        let (row, rows) = (self.sizes[0] * len, if self.direct { sources.len() } else { 1 });
        reserve(mixed, row.saturating_mul(rows))?;
        mixed.resize(row * rows, C::ZERO);
        reserve(weights, rows)?;
        weights.resize(rows, C::from_f64(1.0));
        // Slices that are taken whole follow each other in the row.
        let (slices, length) =
            if len == self.behind { (1, self.sizes[0] * len) } else { (self.sizes[0], len) };
        let mut scratch = BlockBuffer::new();
        for (source, &(position, weight)) in sources.iter().enumerate() {
            // SAFETY: passed on.
            let input = unsafe { self.input.moved(position) };
            let mixed = if self.direct {
                weights[source] = C::from_f64(weight);
                &mut mixed[source * row..][..row]
            } else {
                &mut mixed[..]
            };
            let weight = C::from_f64(weight);
            for slice in 0..slices {
                for start in (0..length).step_by(BLOCK) {
                    let count = BLOCK.min(length - start);
                    let from = slice * self.behind + first + start;
                    // SAFETY: passed on.
                    let values = unsafe { input.read(&self.source, from, count, &mut scratch) };
                    let sums = &mut mixed[slice * length + start..][..count];
                    if self.direct {
                        sums.copy_from_slice(values);
                    } else {
                        vectorized(AddScaled { sums, values, weight });
                    }
                }
            }
        }
        Ok(())
    }

    /// Mixes rows with their weights along the axis and stores a row of the output; without rows it
    /// lies outside.
    ///
    /// # Safety
    ///
    /// The row is one of the output, and nobody else touches these elements of its slices.
    unsafe fn write(&self, target: usize, mixed: Option<(&[C], &[C])>, first: usize, len: usize) {
        // SAFETY: passed on.
        let output = unsafe { self.output.moved(target) };
        let taps = |x: usize| mixed.zip(self.taps[self.last].at(x));
        let mut scratch = BlockBuffer::new();
        if self.behind == 1 {
            for start in (0..self.sizes[1]).step_by(BLOCK) {
                let count = BLOCK.min(self.sizes[1] - start);
                // SAFETY: passed on; all is written.
                unsafe {
                    output.write(&self.target, start, count, &mut scratch, |to| {
                        for (x, to) in (start..).zip(to) {
                            let Some(((mixed, weights), taps)) = taps(x) else {
                                to.write(self.outside);
                                continue;
                            };
                            let mut sum = C::ZERO;
                            for (row, &of_row) in mixed.chunks_exact(self.sizes[0]).zip(weights) {
                                for &(at, weight) in taps {
                                    sum += row[at] * (C::from_f64(weight) * of_row);
                                }
                            }
                            to.write(self.settled(sum));
                        }
                    });
                }
            }
            return;
        }
        let mut sums = [C::ZERO; BLOCK];
        for x in 0..self.sizes[1] {
            for start in (0..len).step_by(BLOCK) {
                let count = BLOCK.min(len - start);
                let sums = &mut sums[..count];
                match taps(x) {
                    None => sums.fill(self.outside),
                    Some(((mixed, weights), taps)) => {
                        sums.fill(C::ZERO);
                        let rows = mixed.chunks_exact(self.sizes[0] * len);
                        for (row, &of_row) in rows.zip(weights) {
                            for &(at, weight) in taps {
                                let values = &row[at * len + start..][..count];
                                let weight = C::from_f64(weight) * of_row;
                                vectorized(AddScaled { sums: &mut *sums, values, weight });
                            }
                        }
                    }
                }
                let place = x * self.behind + first + start;
                // SAFETY: passed on; all is written.
                unsafe {
                    output.write(&self.target, place, count, &mut scratch, |to| {
                        for (to, &sum) in to.iter_mut().zip(&*sums) {
                            to.write(self.settled(sum));
                        }
                    });
                }
            }
        }
    }

    /// A result as it is stored.
    #[inline(always)]
    fn settled(&self, sum: C) -> C {
        if self.is_integer { to_integer(sum) } else { sum }
    }
}

struct AddScaled<'a, F> {
    sums: &'a mut [F],
    values: &'a [F],
    weight: F,
}

impl<F: Float> SimdFn for AddScaled<'_, F> {
    #[inline(always)]
    fn run(self) {
        for (sum, &value) in self.sums.iter_mut().zip(self.values) {
            *sum += value * self.weight;
        }
    }
}
