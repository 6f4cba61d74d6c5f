//! The fast Fourier transform of any length.

use super::complex::Complex;
use crate::kernels::shared::fault::Result;
use crate::kernels::shared::number::Float;
use crate::kernels::shared::scratch::{collected, filled};

/// Prime factors up to this one are transformed by their definition; a length with a larger one goes
/// by way of a convolution (Bluestein).
const LARGEST_RADIX: usize = 31;

/// A transform of one length.
pub(super) enum Fft<F> {
    MixedRadix(MixedRadix<F>),
    Bluestein(Bluestein<F>),
}

/// The mixed-radix algorithm (Cooley and Tukey), for lengths of small prime factors.
pub(super) struct MixedRadix<F> {
    length: usize,
    radices: Vec<usize>,
    /// All twiddle factors: the roots of unity of the length.
    twiddles: Vec<Complex<F>>,
}

/// The algorithm of Bluestein, for lengths with a large prime factor: a convolution of a length of small ones.
pub(super) struct Bluestein<F> {
    length: usize,
    inner: MixedRadix<F>,
    /// `e^(-πi k² / length)`.
    chirp: Vec<Complex<F>>,
    /// The transform of what the chirped input is convolved with, divided by the inner length.
    kernel: Vec<Complex<F>>,
}

impl<F: Float> Fft<F> {
    /// # Panics
    ///
    /// A length of 0.
    pub fn new(length: usize) -> Result<Self> {
        Ok(match radices_of(length) {
            Some(radices) => Fft::MixedRadix(MixedRadix::new(length, radices)?),
            None => Fft::Bluestein(Bluestein::new(length)?),
        })
    }

    /// Numbers of scratch that a transform needs.
    pub fn scratch(&self) -> usize {
        match self {
            Fft::MixedRadix(_) => 0,
            Fft::Bluestein(fft) => 2 * fft.inner.length,
        }
    }

    /// Transforms `from` to `to`.
    pub fn transform(
        &self,
        from: &[Complex<F>],
        to: &mut [Complex<F>],
        scratch: &mut [Complex<F>],
    ) {
        match self {
            Fft::MixedRadix(fft) => fft.transform(from, to),
            Fft::Bluestein(fft) => fft.transform(from, to, scratch),
        }
    }
}

/// The radices of a length, fours first; none where one is too large.
fn radices_of(mut length: usize) -> Option<Vec<usize>> {
    let mut radices = Vec::new();
    while length.is_multiple_of(4) {
        radices.push(4);
        length /= 4;
    }
    for radix in 2..=LARGEST_RADIX {
        while length.is_multiple_of(radix) {
            radices.push(radix);
            length /= radix;
        }
    }
    (length == 1).then_some(radices)
}

impl<F: Float> MixedRadix<F> {
    fn new(length: usize, radices: Vec<usize>) -> Result<Self> {
        let twiddles = collected((0..length).map(|index| Complex::root(index, length)))?;
        Ok(MixedRadix { length, radices, twiddles })
    }

    fn transform(&self, from: &[Complex<F>], to: &mut [Complex<F>]) {
        self.part(from, 1, &self.radices, &mut to[..self.length]);
    }

    /// Transforms every `step`th number of the input.
    fn part(&self, from: &[Complex<F>], step: usize, radices: &[usize], to: &mut [Complex<F>]) {
        let Some((&radix, rest)) = radices.split_first() else {
            to[0] = from[0];
            return;
        };
        let count = to.len() / radix;
        for (index, to) in to.chunks_exact_mut(count).enumerate() {
            self.part(&from[index * step..], step * radix, rest, to);
        }
        match radix {
            2 => self.butterfly_2(step, to),
            4 => self.butterfly_4(step, to),
            _ => self.butterfly(step, radix, to),
        }
    }

    fn butterfly_2(&self, step: usize, to: &mut [Complex<F>]) {
        let (low, high) = to.split_at_mut(to.len() / 2);
        for (k, (low, high)) in low.iter_mut().zip(high).enumerate() {
            let (a, b) = (*low, *high * self.twiddles[k * step]);
            (*low, *high) = (a + b, a - b);
        }
    }

    fn butterfly_4(&self, step: usize, to: &mut [Complex<F>]) {
        let count = to.len() / 4;
        let (low, high) = to.split_at_mut(2 * count);
        let ((p, q), (r, s)) = (low.split_at_mut(count), high.split_at_mut(count));
        for k in 0..count {
            let root = |times: usize| self.twiddles[times * k * step];
            let (a, b, c, d) = (p[k], q[k] * root(1), r[k] * root(2), s[k] * root(3));
            let (even, odd) = (a + c, a - c);
            let (sum, difference) = (b + d, b - d);
            // Minus i times the difference.
            let rotated = Complex { re: difference.im, im: -difference.re };
            (p[k], q[k], r[k], s[k]) = (even + sum, odd + rotated, even - sum, odd - rotated);
        }
    }

    fn butterfly(&self, step: usize, radix: usize, to: &mut [Complex<F>]) {
        let count = to.len() / radix;
        let stretch = self.length / radix;
        let mut terms = [Complex::ZERO; LARGEST_RADIX];
        for k in 0..count {
            for (index, term) in terms[..radix].iter_mut().enumerate() {
                *term = to[index * count + k] * self.twiddles[index * k * step];
            }
            for output in 0..radix {
                let mut sum = terms[0];
                for (index, &term) in terms[..radix].iter().enumerate().skip(1) {
                    sum = sum + term * self.twiddles[index * output % radix * stretch];
                }
                to[output * count + k] = sum;
            }
        }
    }
}

impl<F: Float> Bluestein<F> {
    fn new(length: usize) -> Result<Self> {
        let size = (2 * length - 1).next_power_of_two();
        let radices = radices_of(size).expect("a power of two has small radices");
        let inner = MixedRadix::new(size, radices)?;
        // The square modulo twice the length, so that the angle is exact.
        let square = |k: usize| (k as u128 * k as u128 % (2 * length as u128)) as usize;
        let chirp: Vec<Complex<F>> =
            collected((0..length).map(|k| Complex::root(square(k), 2 * length)))?;
        let mut spread = filled(size, Complex::ZERO)?;
        let share = F::from_f64(1.0 / size as f64);
        for (k, chirp) in chirp.iter().enumerate() {
            let value = chirp.conjugate() * Complex { re: share, im: F::ZERO };
            spread[k] = value;
            spread[(size - k) % size] = value;
        }
        let mut kernel = filled(size, Complex::ZERO)?;
        inner.transform(&spread, &mut kernel);
        Ok(Bluestein { length, inner, chirp, kernel })
    }

    fn transform(&self, from: &[Complex<F>], to: &mut [Complex<F>], scratch: &mut [Complex<F>]) {
        let (first, second) = scratch.split_at_mut(self.inner.length);
        first.fill(Complex::ZERO);
        for ((to, &from), &chirp) in first.iter_mut().zip(&from[..self.length]).zip(&self.chirp) {
            *to = from * chirp;
        }
        self.inner.transform(first, second);
        for (value, &kernel) in second.iter_mut().zip(&self.kernel) {
            *value = (*value * kernel).exchanged();
        }
        self.inner.transform(second, first);
        for ((to, &value), &chirp) in to.iter_mut().zip(&*first).zip(&self.chirp) {
            *to = value.exchanged() * chirp;
        }
    }
}

#[cfg(test)]
mod tests;
