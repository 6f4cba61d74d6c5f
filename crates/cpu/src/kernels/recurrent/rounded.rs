//! A hidden state rounded to 8 bits, as it is multiplied with 8-bit weights.

use crate::kernels::shared::math::functions::clip;
use crate::kernels::shared::number::Float;
use crate::kernels::shared::simd::SimdFn;

/// Writes the nearest of 256 numbers from the least of the state to its largest, 0 among them. NaN becomes 0.
pub(super) struct RoundToBytes<'a, F> {
    pub hidden: &'a [F],
    pub to: &'a mut [F],
}

impl<F: Float> SimdFn for RoundToBytes<'_, F> {
    #[inline(always)]
    fn run(self) {
        let (mut least, mut largest) = (F::ZERO, F::ZERO);
        for &x in self.hidden {
            least = if x < least { x } else { least };
            largest = if x > largest { x } else { largest };
        }
        let high = F::from_f32(255.0);
        let step = (largest - least) / high;
        // Also where numbers are so small that the quotient is 0.
        let step = if step == F::ZERO { F::ONE } else { step };
        let zero = clip((-least / step).round_ties_even(), F::ZERO, high);
        for (to, &x) in self.to.iter_mut().zip(self.hidden) {
            let whole = (x / step).round_ties_even();
            let whole = if whole.is_nan() { F::ZERO } else { whole };
            *to = clip(whole, -zero, high - zero) * step;
        }
    }
}
