//! What random numbers are together.

use millstream_core::{DType, Distribution};

use super::{elements, hold, same};
use crate::cases::FLOATS;
use crate::reference::special::erf;
use crate::{CaseBuilder, Fault, Target, Value, View, ops};

type Run = fn(&dyn Target) -> Result<(), Fault>;

pub(super) const PROPERTIES: &[(&str, Run)] = &[
    ("random/an element depends on seed and position alone", shifts),
    ("random/the layout does not matter", layouts),
    ("random/seeds differ", seeds),
    ("random/uniform numbers are uniform", uniform),
    ("random/normal numbers are normal", normal),
    ("random/neighbors are independent", neighbors),
];

const UNIFORM: Distribution = Distribution::Uniform { low: -1.0, high: 3.0 };
const NORMAL: Distribution = Distribution::Normal { mean: 1.5, deviation: 2.0 };
const SAMPLES: usize = 100_000;

fn draw(
    target: &dyn Target,
    dtype: DType,
    distribution: Distribution,
    (seed, offset): (u64, u64),
    (shape, view): (&[usize], View),
) -> Result<Option<Vec<Value>>, Fault> {
    let op = ops::random(distribution, (seed, offset), dtype, shape);
    let case = CaseBuilder::new("random", op).outputs(&[view]).build();
    Ok(elements(target, &case)?.map(|dense| dense.values))
}

fn row(
    target: &dyn Target,
    dtype: DType,
    distribution: Distribution,
    start: (u64, u64),
    count: usize,
) -> Result<Option<Vec<Value>>, Fault> {
    draw(target, dtype, distribution, start, (&[count], View::Dense))
}

fn shifts(target: &dyn Target) -> Result<(), Fault> {
    for dtype in FLOATS {
        for distribution in [UNIFORM, NORMAL] {
            // Also across the points where a counter of 32 bits, or of 32 bits of blocks, carries.
            for start in [0, 5, (1 << 32) - 20, (1 << 33) - 20, (1 << 34) - 20, (1 << 60) + 3] {
                let Some(whole) = row(target, dtype, distribution, (9, start), 64)? else {
                    continue;
                };
                for shift in 1..40usize {
                    let begin = (9, start + shift as u64);
                    let Some(part) = row(target, dtype, distribution, begin, 64 - shift)? else {
                        continue;
                    };
                    let agree = whole[shift..].iter().zip(&part).all(|(&old, &new)| same(old, new));
                    hold(agree, || {
                        format!("{dtype} {distribution:?} from {start}, shifted by {shift}")
                    })?;
                }
            }
        }
    }
    Ok(())
}

fn layouts(target: &dyn Target) -> Result<(), Fault> {
    for dtype in FLOATS {
        for distribution in [UNIFORM, NORMAL] {
            let dense = row(target, dtype, distribution, (3, 1), 105)?;
            for view in View::WRITABLE {
                let strided = draw(target, dtype, distribution, (3, 1), (&[3, 5, 7], view))?;
                let (Some(dense), Some(strided)) = (&dense, strided) else { continue };
                let agree = dense.iter().zip(&strided).all(|(&old, &new)| same(old, new));
                hold(agree, || format!("{dtype} {distribution:?} in {view:?} differs from dense"))?;
            }
        }
    }
    Ok(())
}

fn seeds(target: &dyn Target) -> Result<(), Fault> {
    // Both halves of the seed have to count.
    let seeds = [0, 1, 2, 1 << 31, 1 << 32, 1 << 63, u64::MAX];
    for distribution in [UNIFORM, NORMAL] {
        let mut rows = Vec::new();
        for seed in seeds {
            rows.extend(row(target, DType::F32, distribution, (seed, 0), 64)?);
        }
        for (at, left) in rows.iter().enumerate() {
            for (other, right) in rows.iter().enumerate().skip(at + 1) {
                let equal = left.iter().zip(right).filter(|(left, right)| left == right).count();
                let (left, right) = (seeds[at], seeds[other]);
                hold(equal <= 2, || format!("seeds {left} and {right} agree in {equal} of 64"))?;
            }
        }
    }
    Ok(())
}

fn sample(target: &dyn Target, dtype: DType, of: Distribution) -> Result<Option<Vec<f64>>, Fault> {
    let values = row(target, dtype, of, (2024, 17), SAMPLES)?;
    Ok(values.map(|values| values.iter().map(|value| value.as_f64()).collect()))
}

fn uniform(target: &dyn Target) -> Result<(), Fault> {
    for dtype in [DType::F32, DType::F64] {
        let Some(values) = sample(target, dtype, UNIFORM)? else { continue };
        let outside = values.iter().find(|value| !(-1.0..3.0).contains(*value));
        hold(outside.is_none(), || format!("{dtype}: {outside:?} is not below 3 and at least -1"))?;
        moments(dtype, &values, 1.0, 16.0 / 12.0)?;
        distribution(dtype, values, |x| (x + 1.0) / 4.0)?;
    }
    Ok(())
}

fn normal(target: &dyn Target) -> Result<(), Fault> {
    for dtype in [DType::F32, DType::F64] {
        let Some(values) = sample(target, dtype, NORMAL)? else { continue };
        moments(dtype, &values, 1.5, 4.0)?;
        distribution(dtype, values, |x| 0.5 * (1.0 + erf((x - 1.5) / 8f64.sqrt())))?;
    }
    Ok(())
}

/// Mean and variance within five standard errors.
fn moments(dtype: DType, values: &[f64], mean: f64, variance: f64) -> Result<(), Fault> {
    let n = values.len() as f64;
    let found = values.iter().sum::<f64>() / n;
    let spread = values.iter().map(|x| (x - found).powi(2)).sum::<f64>() / n;
    hold((found - mean).abs() <= 5.0 * (variance / n).sqrt(), || {
        format!("{dtype}: the mean is {found}, expected {mean}")
    })?;
    // The fourth moment of neither distribution is above three times the squared variance.
    hold((spread - variance).abs() <= 5.0 * variance * (2.0 / n).sqrt(), || {
        format!("{dtype}: the variance is {spread}, expected {variance}")
    })
}

/// Kolmogorov and Smirnov's test; one right sample in ten thousand is this far off.
fn distribution(
    dtype: DType,
    mut values: Vec<f64>,
    below: impl Fn(f64) -> f64,
) -> Result<(), Fault> {
    values.sort_unstable_by(f64::total_cmp);
    let n = values.len() as f64;
    let distance = |(at, &value): (usize, &f64)| {
        let share = below(value);
        (share - at as f64 / n).abs().max(((at + 1) as f64 / n - share).abs())
    };
    let farthest = values.iter().enumerate().map(distance).fold(0.0, f64::max);
    hold(farthest * n.sqrt() <= 2.23, || {
        format!("{dtype}: the distribution is {farthest} away from what it should be")
    })
}

/// No correlation between elements a short way apart, such as those of one block.
fn neighbors(target: &dyn Target) -> Result<(), Fault> {
    for (kind, mean, variance) in [(UNIFORM, 1.0, 16.0 / 12.0), (NORMAL, 1.5, 4.0)] {
        let Some(values) = sample(target, DType::F32, kind)? else { continue };
        for lag in [1, 2, 3, 4, 5, 8, 64, 256] {
            let pairs = values.iter().zip(&values[lag..]);
            let total: f64 = pairs.map(|(left, right)| (left - mean) * (right - mean)).sum();
            let correlation = total / variance / (values.len() - lag) as f64;
            hold(correlation.abs() * (values.len() as f64).sqrt() <= 5.0, || {
                format!("{kind:?}: correlation {correlation} between elements {lag} apart")
            })?;
        }
    }
    Ok(())
}
