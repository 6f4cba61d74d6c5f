//! The fast Fourier transform of any length.

use super::complex::Complex;
use crate::kernels::shared::fault::Result;
use crate::kernels::shared::number::Float;
use crate::kernels::shared::scratch::{collected, filled};

/// Prime factors up to this one are transformed by their definition; a length with a larger one goes
/// by way of a convolution (Bluestein).
const LARGEST_FACTOR: usize = 31;

/// A transform of one length.
pub(super) enum Plan<F> {
    Direct(Factored<F>),
    Convolved(Convolved<F>),
}

/// A length of small factors.
pub(super) struct Factored<F> {
    length: usize,
    factors: Vec<usize>,
    /// All roots of the length.
    roots: Vec<Complex<F>>,
}

/// A length with a large prime factor.
pub(super) struct Convolved<F> {
    length: usize,
    inner: Factored<F>,
    /// `e^(-πi k² / length)`.
    chirp: Vec<Complex<F>>,
    /// The transform of what the chirped input is convolved with, divided by the inner length.
    kernel: Vec<Complex<F>>,
}

impl<F: Float> Plan<F> {
    /// # Panics
    ///
    /// A length of 0.
    pub fn new(length: usize) -> Result<Self> {
        Ok(match factorize(length) {
            Some(factors) => Plan::Direct(Factored::new(length, factors)?),
            None => Plan::Convolved(Convolved::new(length)?),
        })
    }

    /// Numbers of scratch that a transform needs.
    pub fn scratch(&self) -> usize {
        match self {
            Plan::Direct(_) => 0,
            Plan::Convolved(plan) => 2 * plan.inner.length,
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
            Plan::Direct(plan) => plan.transform(from, to),
            Plan::Convolved(plan) => plan.transform(from, to, scratch),
        }
    }
}

/// The factors of a length, fours first; none where one is too large.
fn factorize(mut length: usize) -> Option<Vec<usize>> {
    let mut factors = Vec::new();
    while length.is_multiple_of(4) {
        factors.push(4);
        length /= 4;
    }
    for factor in 2..=LARGEST_FACTOR {
        while length.is_multiple_of(factor) {
            factors.push(factor);
            length /= factor;
        }
    }
    (length == 1).then_some(factors)
}

impl<F: Float> Factored<F> {
    fn new(length: usize, factors: Vec<usize>) -> Result<Self> {
        let roots = collected((0..length).map(|index| Complex::root(index, length)))?;
        Ok(Factored { length, factors, roots })
    }

    fn transform(&self, from: &[Complex<F>], to: &mut [Complex<F>]) {
        self.part(from, 1, &self.factors, &mut to[..self.length]);
    }

    /// Transforms every `step`th number of the input.
    fn part(&self, from: &[Complex<F>], step: usize, factors: &[usize], to: &mut [Complex<F>]) {
        let Some((&factor, rest)) = factors.split_first() else {
            to[0] = from[0];
            return;
        };
        let count = to.len() / factor;
        for (index, to) in to.chunks_exact_mut(count).enumerate() {
            self.part(&from[index * step..], step * factor, rest, to);
        }
        match factor {
            2 => self.join_two(step, to),
            4 => self.join_four(step, to),
            _ => self.join(step, factor, to),
        }
    }

    fn join_two(&self, step: usize, to: &mut [Complex<F>]) {
        let (low, high) = to.split_at_mut(to.len() / 2);
        for (k, (low, high)) in low.iter_mut().zip(high).enumerate() {
            let (a, b) = (*low, *high * self.roots[k * step]);
            (*low, *high) = (a + b, a - b);
        }
    }

    fn join_four(&self, step: usize, to: &mut [Complex<F>]) {
        let count = to.len() / 4;
        let (low, high) = to.split_at_mut(2 * count);
        let ((p, q), (r, s)) = (low.split_at_mut(count), high.split_at_mut(count));
        for k in 0..count {
            let root = |times: usize| self.roots[times * k * step];
            let (a, b, c, d) = (p[k], q[k] * root(1), r[k] * root(2), s[k] * root(3));
            let (even, odd) = (a + c, a - c);
            let (sum, difference) = (b + d, b - d);
            // Minus i times the difference.
            let turned = Complex { re: difference.im, im: -difference.re };
            (p[k], q[k], r[k], s[k]) = (even + sum, odd + turned, even - sum, odd - turned);
        }
    }

    fn join(&self, step: usize, factor: usize, to: &mut [Complex<F>]) {
        let count = to.len() / factor;
        let stretch = self.length / factor;
        let mut terms = [Complex::ZERO; LARGEST_FACTOR];
        for k in 0..count {
            for (index, term) in terms[..factor].iter_mut().enumerate() {
                *term = to[index * count + k] * self.roots[index * k * step];
            }
            for output in 0..factor {
                let mut sum = terms[0];
                for (index, &term) in terms[..factor].iter().enumerate().skip(1) {
                    sum = sum + term * self.roots[index * output % factor * stretch];
                }
                to[output * count + k] = sum;
            }
        }
    }
}

impl<F: Float> Convolved<F> {
    fn new(length: usize) -> Result<Self> {
        let size = (2 * length - 1).next_power_of_two();
        let factors = factorize(size).expect("a power of two has small factors");
        let inner = Factored::new(size, factors)?;
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
        Ok(Convolved { length, inner, chirp, kernel })
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
