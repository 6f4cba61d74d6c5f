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
mod tests;
