//! Complex numbers.

use std::ops::{Add, Mul, Sub};

use crate::kernels::shared::number::Float;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Complex<F> {
    pub re: F,
    pub im: F,
}

impl<F: Float> Complex<F> {
    pub const ZERO: Self = Complex { re: F::ZERO, im: F::ZERO };

    /// `e^(-2πi · numerator / denominator)`, rounded once.
    pub fn root(numerator: usize, denominator: usize) -> Self {
        // Whole turns are taken off while the numbers are exact.
        let turn = (numerator % denominator) as f64 / denominator as f64;
        let (sin, cos) = (std::f64::consts::TAU * turn).sin_cos();
        Complex { re: F::from_f64(cos), im: F::from_f64(-sin) }
    }

    pub fn conjugate(self) -> Self {
        Complex { im: -self.im, ..self }
    }

    /// The number with its parts exchanged. A transform of such numbers, exchanged again, is the
    /// inverse transform.
    #[inline(always)]
    pub fn exchanged(self) -> Self {
        Complex { re: self.im, im: self.re }
    }
}

impl<F: Float> Add for Complex<F> {
    type Output = Self;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Complex { re: self.re + other.re, im: self.im + other.im }
    }
}

impl<F: Float> Sub for Complex<F> {
    type Output = Self;

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Complex { re: self.re - other.re, im: self.im - other.im }
    }
}

impl<F: Float> Mul for Complex<F> {
    type Output = Self;

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Complex {
            re: self.re * other.re - self.im * other.im,
            im: self.re * other.im + self.im * other.re,
        }
    }
}
