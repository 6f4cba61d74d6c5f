//! Arithmetic: what becomes of subnormal numbers, and how sums and products are rounded.

use super::lab::Lab;
use super::{Check, RowResult, compared, measured};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "subnormal-moves",
        assumed: "loads and stores keep subnormal f32 numbers",
        run: subnormal_moves,
    },
    Check {
        name: "subnormal-arithmetic",
        assumed: "sums and products take subnormal f32 numbers for zeros, and give zeros for them",
        run: subnormal_arithmetic,
    },
    Check {
        name: "rounding-add",
        assumed: "sums of f32 are rounded to the nearest, ties to even",
        run: |lab| rounding(lab, 1, |x, y| x + y),
    },
    Check {
        name: "rounding-multiply",
        assumed: "products of f32 are rounded to the nearest, ties to even",
        run: |lab| rounding(lab, 2, |x, y| x * y),
    },
    Check {
        name: "rounding-divide",
        assumed: "quotients of f32 are rounded to the nearest, ties to even",
        run: |lab| rounding(lab, 3, |x, y| x / y),
    },
    Check {
        name: "rounding-fma",
        assumed: "fma rounds once",
        run: |lab| rounding(lab, 6, |x, y| x.mul_add(x, y)),
    },
    Check {
        name: "contraction-off",
        assumed: "with contraction switched off in the text, a product and a sum are rounded one by one",
        run: |lab| compare_contraction(lab, 4),
    },
    Check { name: "contraction-default", assumed: "", run: contraction_default },
    Check {
        name: "half-rounding",
        assumed: "f32 to f16 rounds to the nearest, ties to even, and makes subnormal f16 numbers",
        run: half_rounding,
    },
    Check {
        name: "nan-and-infinity",
        assumed: "NaN and infinities are kept and told apart: safe math",
        run: nan_and_infinity,
    },
];

/// Bits that look random, and depend on a seed alone.
pub(super) fn random(seed: u32) -> impl Iterator<Item = u32> {
    let mut state = u64::from(seed) << 32 | 0x9e37_79b9;
    std::iter::repeat_with(move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    })
}

fn subnormals() -> Vec<f32> {
    let mut all: Vec<f32> = (0..23).map(|bit| f32::from_bits(1 << bit)).collect();
    all.extend([f32::from_bits(0x007f_ffff), f32::from_bits(0x8000_0001), -1e-40]);
    all
}

fn subnormal_moves(lab: &Lab) -> RowResult {
    let x = subnormals();
    let got = lab.values(0, &x, &x)?;
    let kept = x.iter().zip(&got).filter(|(x, got)| x.to_bits() == got.to_bits()).count();
    compared(kept == x.len(), format!("{kept} of {} kept", x.len()))
}

fn subnormal_arithmetic(lab: &Lab) -> RowResult {
    let x = subnormals();
    let (ones, zeros) = (vec![1.0; x.len()], vec![0.0; x.len()]);
    let halves = vec![f32::MIN_POSITIVE; x.len()];
    let results = [
        lab.values(2, &x, &ones)?,
        lab.values(1, &x, &zeros)?,
        lab.values(2, &halves, &vec![0.5; x.len()])?,
    ];
    let all = results.concat();
    let flushed = all.iter().filter(|got| **got == 0.0).count();
    compared(flushed == all.len(), format!("{flushed} of {} results are zero", all.len()))
}

/// Pairs of numbers of which neither they nor what is made of them is subnormal or infinite.
fn pairs(make: fn(f32, f32) -> f32) -> [Vec<f32>; 2] {
    let mut bits = random(1);
    let mut next = || loop {
        let x = f32::from_bits(bits.next().unwrap_or_default());
        if x.is_normal() && (1e-9..1e9).contains(&x.abs()) {
            return x;
        }
    };
    let mut all = [Vec::new(), Vec::new()];
    while all[0].len() < 1 << 14 {
        let (x, mut y) = (next(), next());
        if all[0].len() % 2 == 0 {
            // Numbers of one size, whose sums cancel.
            y = -x * (1.0 + y.fract() * 1e-3);
        }
        if make(x, y).is_normal() {
            all[0].push(x);
            all[1].push(y);
        }
    }
    all
}

fn rounding(lab: &Lab, what: u32, make: fn(f32, f32) -> f32) -> RowResult {
    let [x, y] = pairs(make);
    let got = lab.values(what, &x, &y)?;
    let same = (0..x.len()).filter(|&i| make(x[i], y[i]).to_bits() == got[i].to_bits()).count();
    compared(same == x.len(), format!("{same} of {} have the bits of the host", x.len()))
}

/// A square and a sum that are zero if they are rounded one by one, and 2⁻²⁴ if they are not.
fn contracted(lab: &Lab, what: u32) -> Result<f32, String> {
    let a = 1.0 + 2f32.powi(-12);
    let got = lab.values(what, &[a; 64], &[-(1.0 + 2f32.powi(-11)); 64])?;
    Ok(got[0])
}

fn compare_contraction(lab: &Lab, what: u32) -> RowResult {
    let got = contracted(lab, what)?;
    compared(got == 0.0, format!("{}: {got:e}", if got == 0.0 { "one by one" } else { "joined" }))
}

fn contraction_default(lab: &Lab) -> RowResult {
    let got = contracted(lab, 5)?;
    measured(format!(
        "a * a + b without a pragma is {}",
        if got == 0.0 { "rounded one by one" } else { "joined to one operation" }
    ))
}

fn half_rounding(lab: &Lab) -> RowResult {
    // Between 2⁻²⁵ and beyond the largest f16, with ties.
    let bits = random(2).take(1 << 14);
    let x: Vec<f32> = bits
        .map(|bits| {
            let exponent = 102 + bits % 40;
            f32::from_bits(
                exponent << 23 | (bits >> 9 & 0x7f_ffff) >> (bits >> 5 & 15) << (bits >> 5 & 15),
            )
        })
        .collect();
    let got = lab.values(7, &x, &x)?;
    let same = |i: &usize| f64::from(got[*i]) == f64::from(nearest_half(x[*i]));
    let same = (0..x.len()).filter(same).count();
    compared(same == x.len(), format!("{same} of {} have the bits of the host", x.len()))
}

/// A number as f16 holds it, as f32.
fn nearest_half(x: f32) -> f32 {
    let magnitude = f64::from(x.abs());
    // The distance between neighbors of f16 there.
    let exponent = (magnitude.log2().floor() as i32).max(-14);
    let step = 2f64.powi(exponent - 10);
    let rounded = (magnitude / step).round_ties_even() * step;
    let rounded = if rounded > 65504.0 { f64::INFINITY } else { rounded };
    rounded.copysign(f64::from(x)) as f32
}

fn nan_and_infinity(lab: &Lab) -> RowResult {
    let x = [f32::INFINITY, f32::INFINITY, f32::NAN, 1.0, f32::MAX];
    let y = [f32::INFINITY, f32::NEG_INFINITY, 1.0, 1.0, f32::MIN];
    let is_nan = lab.values(8, &x, &y)?;
    let sums = lab.values(1, &x, &x)?;
    let kept =
        is_nan == [1.0, 0.0, 1.0, 0.0, 0.0] && sums[0] == f32::INFINITY && sums[4].is_infinite();
    compared(kept, format!("is NaN: {is_nan:?}, doubled: {sums:?}"))
}
