//! What becomes of the scores of a row.

use super::super::common::refusal;
use crate::Result;

/// The last step of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PostTransform {
    None,
    Logistic,
    Softmax,
    /// Scores that are 0 stay so.
    SoftmaxZero,
    Probit,
}

/// How a single score becomes two, one for each of two classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Second {
    /// It stays alone.
    Not,
    /// It is a probability: the first class has the rest.
    Rest,
    /// It is above or below 0: the first class has it with the other sign.
    Opposite,
}

impl PostTransform {
    pub fn of(name: &str) -> Result<Self> {
        match name {
            "NONE" | "" => Ok(Self::None),
            "LOGISTIC" => Ok(Self::Logistic),
            "SOFTMAX" => Ok(Self::Softmax),
            "SOFTMAX_ZERO" => Ok(Self::SoftmaxZero),
            "PROBIT" => Ok(Self::Probit),
            other => Err(refusal(format!("post_transform {other:?}"))),
        }
    }

    /// By the number that newer operators give it.
    pub fn of_number(number: i64) -> Result<Self> {
        match number {
            0 => Ok(Self::None),
            1 => Ok(Self::Softmax),
            2 => Ok(Self::Logistic),
            3 => Ok(Self::SoftmaxZero),
            4 => Ok(Self::Probit),
            other => Err(refusal(format!("post_transform {other}"))),
        }
    }

    /// Changes the scores of a row.
    pub fn apply(self, scores: &mut Vec<f32>, second: Second) {
        if let [score] = scores[..] {
            match (self, second) {
                (Self::Probit, _) => scores[0] = probit(score),
                (_, Second::Not) => {}
                // It is not a probability yet.
                (Self::Logistic, Second::Rest | Second::Opposite) => {
                    *scores = vec![logistic(-score), logistic(score)];
                }
                (_, Second::Rest) => *scores = vec![1.0 - score, score],
                (_, Second::Opposite) => *scores = vec![-score, score],
            }
            return;
        }
        match self {
            Self::None => {}
            Self::Logistic => scores.iter_mut().for_each(|score| *score = logistic(*score)),
            Self::Probit => scores.iter_mut().for_each(|score| *score = probit(*score)),
            Self::Softmax => softmax(scores, false),
            Self::SoftmaxZero => softmax(scores, true),
        }
    }
}

pub(super) fn logistic(value: f32) -> f32 {
    // The exponent is never positive, so nothing overflows.
    let positive = 1.0 / (1.0 + (-value.abs()).exp());
    if value < 0.0 { 1.0 - positive } else { positive }
}

/// The inverse of the normal distribution, as others approximate it: models were tested with that.
fn probit(value: f32) -> f32 {
    std::f32::consts::SQRT_2 * inverse_error_function(2.0 * value - 1.0)
}

/// Winitzki's approximation, with the digits of π that others take.
#[allow(clippy::approx_constant)]
fn inverse_error_function(value: f32) -> f32 {
    const A: f32 = 0.147;
    let log = ((1.0 - value) * (1.0 + value)).ln();
    let half = 2.0 / (3.14159 * A) + 0.5 * log;
    let root = ((half * half - log / A).sqrt() - half).sqrt();
    if value < 0.0 { -root } else { root }
}

fn softmax(scores: &mut [f32], zeros_stay: bool) {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        if zeros_stay && score.abs() <= 1e-7 {
            *score *= (-most).exp();
            continue;
        }
        *score = (*score - most).exp();
        sum += *score;
    }
    scores.iter_mut().for_each(|score| *score /= sum);
}

#[cfg(test)]
mod tests;
