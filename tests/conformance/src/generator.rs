//! Values for inputs, the same on every machine.

use millstream_core::DType;

use crate::{Value, limits, round_to};

/// A sequence of numbers that depends on its seed alone (SplitMix64).
#[derive(Clone, Debug)]
pub struct Generator(u64);

impl Generator {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The sequence of a name, so that cases do not share their values by accident.
    pub fn named(name: &str) -> Self {
        let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(name.bytes().fold(0xcbf2_9ce4_8422_2325, fold))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number of `0..count`.
    ///
    /// # Panics
    ///
    /// A count of 0.
    pub fn below(&mut self, count: usize) -> usize {
        (self.bits() % count as u64) as usize
    }

    /// A number between two others.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// An element of a type: floating point of the range, any `bool`, or an integer that is usually
    /// small and sometimes anything up to the limits of its type.
    pub fn element(&mut self, dtype: DType, low: f64, high: f64) -> Value {
        if dtype.is_float() {
            return Value::Float(round_to(dtype, self.between(low, high)));
        }
        let (lowest, highest) = (limits(dtype).0.as_i128(), limits(dtype).1.as_i128());
        let span = (highest - lowest + 1) as u128;
        Value::Int(match self.below(8) {
            0 => lowest,
            1 => highest,
            2 | 3 => lowest + (u128::from(self.bits()) % span) as i128,
            _ => (self.below(19) as i128 - 9).clamp(lowest, highest),
        })
    }

    /// Elements of a type, as [`element`](Self::element) gives them.
    pub fn elements(&mut self, dtype: DType, count: usize, low: f64, high: f64) -> Vec<Value> {
        (0..count).map(|_| self.element(dtype, low, high)).collect()
    }
}

/// Numbers of a type that are apt to be handled wrongly.
pub(crate) fn special_values(dtype: DType) -> Vec<Value> {
    let (lowest, highest) = limits(dtype);
    if dtype == DType::Bool {
        return vec![lowest, highest];
    }
    if dtype.is_int() {
        let (lowest, highest) = (lowest.as_i128(), highest.as_i128());
        let mut values = vec![lowest, lowest + 1, highest, highest - 1, highest / 2 + 1];
        values.extend([0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 65, 127]);
        values.extend([-1, -2, -3, -7, -8].iter().filter(|&&value| value >= lowest));
        return values.into_iter().map(Value::Int).collect();
    }
    let mut values = vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0];
    values.extend([lowest.as_f64(), highest.as_f64()]);
    for value in
        [1.0, 0.5, 1.5, 2.5, 2.0, 3.0, 0.25, 1e-3, 0.999, 1.001, 10.0, 20.0, 89.0, 1e3, 1e4]
    {
        values.extend([value, -value]);
    }
    values.into_iter().map(|value| Value::Float(round_to(dtype, value))).collect()
}

/// Subnormal numbers of a floating-point type, and the smallest normal one.
pub(crate) fn subnormal_values(dtype: DType) -> Vec<Value> {
    let (normal, step) = match dtype {
        DType::F16 => (2f64.powi(-14), 2f64.powi(-24)),
        DType::F64 => (f64::MIN_POSITIVE, f64::from_bits(1)),
        DType::BF16 => (2f64.powi(-126), 2f64.powi(-133)),
        _ => (2f64.powi(-126), 2f64.powi(-149)),
    };
    let values = [normal, step, 2.0 * step, 3.0 * step, normal - step, normal / 2.0];
    values.iter().flat_map(|&value| [Value::Float(value), Value::Float(-value)]).collect()
}
