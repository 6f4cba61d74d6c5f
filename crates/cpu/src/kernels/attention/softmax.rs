//! The softmax of scores that come block by block, for each lane by itself.

use crate::kernels::shared::number::Float;
use crate::kernels::shared::simd::{Isa, SimdFn, vectorized_for};

/// Lanes of the widest panel.
pub(super) const MOST: usize = 32;

/// The largest score so far, and the sum of the powers of all relative to it, for each lane.
pub(super) struct Softmax<F> {
    tops: [F; MOST],
    totals: [F; MOST],
}

impl<F: Float> Softmax<F> {
    pub fn new() -> Self {
        Softmax { tops: [-F::INFINITY; MOST], totals: [F::ZERO; MOST] }
    }

    /// Divides results by the sums of their lanes. A lane that has seen nothing stays 0.
    pub fn divide(&self, isa: Isa, width: usize, results: &mut [F]) {
        let one_over =
            self.totals.map(|total| if total == F::ZERO { F::ZERO } else { F::ONE / total });
        // SAFETY: the CPU has the ISA.
        unsafe { vectorized_for(isa, Scale { width, scales: &one_over, results }) };
    }

    /// Turns rows of scores into powers and scales the results so far, if any, to match.
    pub fn add(&mut self, isa: Isa, width: usize, scores: &mut [F], results: &mut [F]) {
        match isa {
            Isa::Portable => self.add_any(width, scores, results),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the CPU has the features of the ISA.
            Isa::Avx2 => unsafe { self.add_with_avx2(width, scores, results) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Isa::Avx512 => unsafe { self.add_with_avx512(width, scores, results) },
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn add_with_avx2(&mut self, width: usize, scores: &mut [F], results: &mut [F]) {
        self.add_any(width, scores, results);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,avx512f")]
    fn add_with_avx512(&mut self, width: usize, scores: &mut [F], results: &mut [F]) {
        self.add_any(width, scores, results);
    }

    #[inline(always)]
    fn add_any(&mut self, width: usize, scores: &mut [F], results: &mut [F]) {
        // A width that is known keeps a row in registers.
        match width {
            32 => self.add_rows::<32>(scores, results),
            16 => self.add_rows::<16>(scores, results),
            8 => self.add_rows::<8>(scores, results),
            _ => self.add_rows::<4>(scores, results),
        }
    }

    #[inline(always)]
    fn add_rows<const WIDTH: usize>(&mut self, scores: &mut [F], results: &mut [F]) {
        let (rows, _) = scores.as_chunks_mut::<WIDTH>();
        let before: [F; WIDTH] = std::array::from_fn(|lane| self.tops[lane]);
        let mut tops = before;
        for row in &*rows {
            for lane in 0..WIDTH {
                // A NaN is not larger than anything; it reaches the sum below.
                tops[lane] = if row[lane] > tops[lane] { row[lane] } else { tops[lane] };
            }
        }
        let mut base = [F::ZERO; WIDTH];
        let mut scales = [F::ZERO; WIDTH];
        for lane in 0..WIDTH {
            // A lane that has seen nothing counts from 0, so that its powers are 0 and not NaN.
            base[lane] = if tops[lane] == -F::INFINITY { F::ZERO } else { tops[lane] };
            scales[lane] = (before[lane] - base[lane]).exp_nonpositive();
        }
        let mut totals = [F::ZERO; WIDTH];
        for row in rows {
            for lane in 0..WIDTH {
                row[lane] = (row[lane] - base[lane]).exp_nonpositive();
                totals[lane] += row[lane];
            }
        }
        for lane in 0..WIDTH {
            self.tops[lane] = tops[lane];
            self.totals[lane] = self.totals[lane] * scales[lane] + totals[lane];
        }
        // Before the first block there are no results.
        if before != tops && before != [-F::INFINITY; WIDTH] {
            scale_rows(WIDTH, &scales, results);
        }
    }
}

/// Multiplies each lane of all rows. The width is no constant here, or the compiler would make vectors
/// of rows and not of lanes.
#[inline(always)]
fn scale_rows<F: Float>(width: usize, scales: &[F], results: &mut [F]) {
    for row in results.chunks_exact_mut(width) {
        for (result, &scale) in row.iter_mut().zip(scales) {
            *result = *result * scale;
        }
    }
}

/// Multiplies each lane by a scale of its own.
struct Scale<'a, F> {
    width: usize,
    scales: &'a [F; MOST],
    results: &'a mut [F],
}

impl<F: Float> SimdFn for Scale<'_, F> {
    #[inline(always)]
    fn run(self) {
        scale_rows(self.width, self.scales, self.results);
    }
}
