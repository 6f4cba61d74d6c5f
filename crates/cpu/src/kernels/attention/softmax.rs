//! The softmax of scores that come block by block, for each lane by itself.

use super::super::number::Float;
use super::super::panels::PORTABLE_FUSES;
use super::super::simd::{Job, Machine, vectorised_for};

/// Lanes of the widest panel.
const MOST: usize = 32;

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
    pub fn divide(&self, machine: Machine, width: usize, results: &mut [F]) {
        let one_over =
            self.totals.map(|total| if total == F::ZERO { F::ZERO } else { F::ONE / total });
        // SAFETY: the machine is at hand.
        unsafe { vectorised_for(machine, Scale { width, factors: &one_over, results }) };
    }

    /// Turns rows of scores into powers and scales the results so far to match.
    pub fn add(&mut self, machine: Machine, width: usize, scores: &mut [F], results: &mut [F]) {
        match machine {
            Machine::Portable => self.add_any::<PORTABLE_FUSES>(width, scores, results),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the machine has the features of its name.
            Machine::Avx2 => unsafe { self.add_with_avx2(width, scores, results) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Machine::Avx512 => unsafe { self.add_with_avx512(width, scores, results) },
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn add_with_avx2(&mut self, width: usize, scores: &mut [F], results: &mut [F]) {
        self.add_any::<true>(width, scores, results);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,avx512f")]
    fn add_with_avx512(&mut self, width: usize, scores: &mut [F], results: &mut [F]) {
        self.add_any::<true>(width, scores, results);
    }

    #[inline(always)]
    fn add_any<const FUSED: bool>(&mut self, width: usize, scores: &mut [F], results: &mut [F]) {
        // A width that is known keeps a row in registers.
        match width {
            32 => self.add_rows::<32, FUSED>(scores, results),
            16 => self.add_rows::<16, FUSED>(scores, results),
            8 => self.add_rows::<8, FUSED>(scores, results),
            _ => self.add_rows::<4, FUSED>(scores, results),
        }
    }

    #[inline(always)]
    fn add_rows<const WIDTH: usize, const FUSED: bool>(&mut self, scores: &mut [F], results: &mut [F]) {
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
        let mut factors = [F::ZERO; WIDTH];
        for lane in 0..WIDTH {
            // A lane that has seen nothing counts from 0, so that its powers are 0 and not NaN.
            base[lane] = if tops[lane] == -F::INFINITY { F::ZERO } else { tops[lane] };
            factors[lane] = power::<F, FUSED>(before[lane] - base[lane]);
        }
        let mut totals = [F::ZERO; WIDTH];
        for row in rows {
            for lane in 0..WIDTH {
                row[lane] = power::<F, FUSED>(row[lane] - base[lane]);
                totals[lane] += row[lane];
            }
        }
        for lane in 0..WIDTH {
            self.tops[lane] = tops[lane];
            self.totals[lane] = self.totals[lane] * factors[lane] + totals[lane];
        }
        if before != tops {
            scale_rows::<F, WIDTH>(&factors, results);
        }
    }
}

/// `eˣ` of a number that is not above 0.
#[inline(always)]
fn power<F: Float, const FUSED: bool>(x: F) -> F {
    if FUSED { x.falling_exp() } else { x.exp() }
}

#[inline(always)]
fn scale_rows<F: Float, const WIDTH: usize>(factors: &[F; WIDTH], results: &mut [F]) {
    let (rows, _) = results.as_chunks_mut::<WIDTH>();
    for row in rows {
        for lane in 0..WIDTH {
            row[lane] = row[lane] * factors[lane];
        }
    }
}

/// Multiplies each lane by a factor of its own.
struct Scale<'a, F> {
    width: usize,
    factors: &'a [F; MOST],
    results: &'a mut [F],
}

impl<F: Float> Job for Scale<'_, F> {
    #[inline(always)]
    fn run(self) {
        for row in self.results.chunks_exact_mut(self.width) {
            for (result, &factor) in row.iter_mut().zip(self.factors) {
                *result = *result * factor;
            }
        }
    }
}
