//! Random numbers as a pure function of seed and position (Philox 4×32-10).
//!
//! A counter-based generator has no state to share: element `i` is computed from the seed and `i`
//! alone, so any number of threads, in any order, on any device, makes the same sequence.
//!
//! Position `p` of the sequence of a seed is word `p % 4` of block `p / 4`. A normal number is made
//! of the pair of words that its position lies in: the even word gives the radius, the odd word the
//! angle, the even position takes the cosine and the odd position the sine.
//!
//! Everything here uses only integer operations and the addition, subtraction, multiplication,
//! division and square root of `f32`, which IEEE 754 rounds in one way. So a device that does not
//! contract multiplications and additions makes the same bits; the platform's mathematical library
//! plays no part. Nor is there a branch, so that a loop over blocks becomes one over vectors.
//!
//! # Example
//!
//! ```
//! # millstream_core::doctest!();
//! use millstream::random::philox;
//!
//! let seed = 42;
//! let fifth = philox::uniform_at(seed, 4);
//! assert_eq!(fifth, philox::uniform(philox::block(seed, 1)[0]));
//! assert!((0.0..1.0).contains(&fifth));
//! ```

/// Rounds of the bijection; ten is what its authors recommend.
const ROUNDS: usize = 10;
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// Added to the key after each round: the golden ratio and √3 − 1 as fractions of 2³².
const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Words in one block.
pub const BLOCK_WORDS: u64 = 4;

/// The Philox 4×32-10 bijection of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3".
#[inline(always)]
pub fn philox4x32(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..ROUNDS {
        let first = u64::from(MULTIPLIERS[0]) * u64::from(counter[0]);
        let second = u64::from(MULTIPLIERS[1]) * u64::from(counter[2]);
        counter = [
            (second >> 32) as u32 ^ counter[1] ^ key[0],
            second as u32,
            (first >> 32) as u32 ^ counter[3] ^ key[1],
            first as u32,
        ];
        key = [key[0].wrapping_add(KEY_STEPS[0]), key[1].wrapping_add(KEY_STEPS[1])];
    }
    counter
}

/// Four random words: block `index` of the sequence of `seed`.
#[inline(always)]
pub fn block(seed: u64, index: u64) -> [u32; 4] {
    philox4x32([index as u32, (index >> 32) as u32, 0, 0], [seed as u32, (seed >> 32) as u32])
}

/// A number in `0 .. 1`, a multiple of 2⁻²⁴, from the high 24 bits of a random word.
#[inline(always)]
pub fn uniform(word: u32) -> f32 {
    // 24 bits fit the significand of `f32`, so nothing is rounded and 1 is never reached.
    small(word >> 8) * UNIT
}

/// Two independent numbers of the standard normal distribution from two random words, by the
/// transform of Box and Muller. Their magnitude is below 5.8.
#[inline(always)]
pub fn normal_pair(radius: u32, angle: u32) -> (f32, f32) {
    // One is added so that the argument lies in (0, 1] and the logarithm is finite.
    let radius = (-2.0 * logarithm(small((radius >> 8) + 1) * UNIT)).sqrt();
    let (sine, cosine) = turn(angle >> 8);
    (radius * cosine, radius * sine)
}

/// The uniform number in `0 .. 1` at a position of the sequence of `seed`.
pub fn uniform_at(seed: u64, position: u64) -> f32 {
    uniform(block(seed, position / BLOCK_WORDS)[(position % BLOCK_WORDS) as usize])
}

/// The standard normal number at a position of the sequence of `seed`.
pub fn normal_at(seed: u64, position: u64) -> f32 {
    normals(block(seed, position / BLOCK_WORDS))[(position % BLOCK_WORDS) as usize]
}

/// The four standard normal numbers of a block.
#[inline(always)]
pub fn normals(words: [u32; 4]) -> [f32; 4] {
    let (first, second) = normal_pair(words[0], words[1]);
    let (third, fourth) = normal_pair(words[2], words[3]);
    [first, second, third, fourth]
}

/// 2⁻²⁴.
const UNIT: f32 = 1.0 / (1 << 24) as f32;

/// The natural logarithm of a normal number in (0, 1], within 2 units in the last place.
#[inline(always)]
fn logarithm(value: f32) -> f32 {
    // value = 2^exponent · fraction, with the fraction between √½ and √2.
    let bits = value.to_bits() as i32;
    let exponent = (bits - std::f32::consts::FRAC_1_SQRT_2.to_bits() as i32) >> 23;
    let fraction = f32::from_bits((bits - (exponent << 23)) as u32);
    // ln f = 2 artanh s with s = (f - 1) / (f + 1), |s| below 0.172; the series ends below 2⁻²⁸.
    let s = (fraction - 1.0) / (fraction + 1.0);
    let t = s * s;
    let tail = t * (1.0 / 3.0 + t * (1.0 / 5.0 + t * (1.0 / 7.0 + t * (1.0 / 9.0))));
    // ln 2 in two parts: the product of the first with an exponent is exact.
    let exponent = exponent as f32;
    let low = exponent * 1.428_606_8e-6 + 2.0 * s * tail;
    exponent * 0.693_145_75 + (2.0 * s + low)
}

/// Sine and cosine of `steps` parts of 2²⁴ of a full turn.
#[inline(always)]
fn turn(steps: u32) -> (f32, f32) {
    const QUARTER: u32 = 1 << 22;
    // The nearest quarter is taken off as integers, which leaves at most an eighth of a turn.
    let quarter = (steps + QUARTER / 2) / QUARTER;
    let left = steps as i32 - (quarter * QUARTER) as i32;
    let x = left as f32 * (std::f32::consts::TAU * UNIT);
    let t = x * x;
    let sine =
        x + x * t * (-1.0 / 6.0 + t * (1.0 / 120.0 + t * (-1.0 / 5_040.0 + t * (1.0 / 362_880.0))));
    let cosine = 1.0
        + t * (-0.5
            + t * (1.0 / 24.0
                + t * (-1.0 / 720.0 + t * (1.0 / 40_320.0 + t * (-1.0 / 3_628_800.0)))));
    // Odd quarters swap the two. The sine is negative in quarters 2 and 3, the cosine in 1 and 2.
    let odd = quarter & 1 != 0;
    let (first, second) = if odd { (cosine, sine) } else { (sine, cosine) };
    (negated(first, quarter & 2), negated(second, (quarter + 1) & 2))
}

/// The number with its sign changed if `flip` is 2 and not 0.
#[inline(always)]
fn negated(value: f32, flip: u32) -> f32 {
    f32::from_bits(value.to_bits() ^ flip << 30)
}

/// An integer below 2³¹ as a number: the conversion of signed integers is the one that every machine
/// has an instruction for.
#[inline(always)]
fn small(value: u32) -> f32 {
    value as i32 as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers_of_the_paper_are_met() {
        assert_eq!(
            philox4x32([0; 4], [0; 2]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox4x32([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox4x32(
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn uniform_numbers_lie_in_the_half_open_unit_interval() {
        assert_eq!(uniform(0), 0.0);
        assert_eq!(uniform(u32::MAX), 1.0 - UNIT);
    }

    #[test]
    fn logarithm_agrees_with_double_precision() {
        for step in (1u32..=1 << 24).step_by(997).chain([1, 2, (1 << 24) - 1, 1 << 24]) {
            let value = step as f32 * UNIT;
            let exact = f64::from(value).ln();
            let error = (f64::from(logarithm(value)) - exact).abs();
            assert!(error <= exact.abs() * 2.4e-7, "ln {value}: error {error}");
        }
    }

    #[test]
    fn turn_agrees_with_double_precision() {
        for steps in (0u32..1 << 24).step_by(1009).chain([1 << 21, (1 << 24) - 1]) {
            let angle = f64::from(steps) * f64::from(UNIT) * std::f64::consts::TAU;
            let (sine, cosine) = turn(steps);
            assert!((f64::from(sine) - angle.sin()).abs() < 1.2e-7, "sine at {steps}");
            assert!((f64::from(cosine) - angle.cos()).abs() < 1.2e-7, "cosine at {steps}");
        }
    }

    #[test]
    fn normal_numbers_have_the_moments_of_the_normal_distribution() {
        let count = 200_000u64;
        let mut sums = [0.0f64; 4];
        for position in 0..count {
            let value = f64::from(normal_at(7, position));
            assert!(value.abs() < 5.8);
            for (power, sum) in sums.iter_mut().enumerate() {
                *sum += value.powi(power as i32 + 1);
            }
        }
        let moments = sums.map(|sum| sum / count as f64);
        for (moment, (expected, tolerance)) in
            moments.iter().zip([(0.0, 0.01), (1.0, 0.015), (0.0, 0.04), (3.0, 0.1)])
        {
            assert!((moment - expected).abs() < tolerance, "moments {moments:?}");
        }
    }

    #[test]
    fn uniform_numbers_fill_the_interval_evenly() {
        let mut bins = [0u32; 16];
        for position in 0..160_000 {
            bins[(uniform_at(3, position) * 16.0) as usize] += 1;
        }
        assert!(bins.iter().all(|&count| (9_600..10_400).contains(&count)), "{bins:?}");
    }

    #[test]
    fn extreme_words_stay_finite() {
        for radius in [0, u32::MAX] {
            for angle in [0, 1 << 29, 1 << 31, u32::MAX] {
                let (first, second) = normal_pair(radius, angle);
                assert!(first.is_finite() && second.is_finite());
            }
        }
    }
}
