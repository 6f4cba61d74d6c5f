//! Inputs that are filled with numbers.

use millstream::graph::{Array, Port, ValueType};
use millstream::{DType, Device, Error, Result};

use super::invalid;

/// What is filled may take one part in so many of the memory.
const MEMORY_SHARE: usize = 4;

/// What inputs are filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Fill {
    /// Zeros.
    Zeros,
    /// Ones.
    Ones,
    /// Random numbers.
    Random,
}

/// Where random numbers lie, if that is said: from the first on, below the second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Range(Option<(f64, f64)>);

impl Range {
    pub fn parse(text: &str) -> Result<Self> {
        let ends = text.split_once("..").and_then(|(low, high)| {
            let (low, high) = (low.trim().parse::<f64>().ok()?, high.trim().parse::<f64>().ok()?);
            (low < high && low.is_finite() && high.is_finite()).then_some((low, high))
        });
        match ends {
            Some(ends) => Ok(Self(Some(ends))),
            None => Err(Error::InvalidConfig {
                key: "--range".into(),
                value: text.into(),
                expected: "two numbers as in 0..1000, the first one less",
            }),
        }
    }

    fn ends(self, dtype: DType) -> (f64, f64) {
        self.0.unwrap_or(if dtype.is_float() { (-1.0, 1.0) } else { (0.0, 2.0) })
    }
}

/// The element type of an input that is filled.
pub(super) fn dtype(port: &Port) -> Result<DType> {
    match &port.declared {
        ValueType::Tensor(dtype, _) => Ok(*dtype),
        ValueType::Unknown => Ok(DType::F32),
        ValueType::Strings(_)
        | ValueType::Sequence(_)
        | ValueType::Optional(_)
        | ValueType::Map(_) => Err(invalid(format!(
            "input {:?} is {}: only tensors of numbers are filled, give it with --input or --value",
            port.name, port.declared
        ))),
    }
}

impl Fill {
    pub(super) fn words(self, dtype: DType, range: Range) -> String {
        match self {
            Fill::Zeros => "zeros".into(),
            Fill::Ones => "ones".into(),
            Fill::Random => {
                let (low, high) = range.ends(dtype);
                let kind = if dtype.is_float() { "numbers" } else { "integers" };
                format!("random {kind} in {low}..{high}")
            }
        }
    }

    /// An array of such numbers. Random ones follow from seeds and from the number of the input.
    pub(super) fn array(
        self,
        shape: &[usize],
        dtype: DType,
        range: Range,
        (seed, call, input): (u64, usize, usize),
    ) -> Result<Array> {
        let count = shape.iter().try_fold(1usize, |count, &size| count.checked_mul(size));
        let bytes = count.and_then(|count| count.checked_mul(size_of::<f64>()));
        let (Some(count), Some(bytes)) = (count, bytes) else {
            return Err(invalid(format!("a shape {shape:?} is too large")));
        };
        // They are on the host more than once on their way to the device.
        let memory = Device::cpu()?.info().memory_bytes;
        if bytes > memory / MEMORY_SHARE {
            let reason = format!(
                "a shape {shape:?} is too large to be filled: that takes {bytes} bytes, and there are {memory}"
            );
            return Err(invalid(reason));
        }
        let (low, high) = range.ends(dtype);
        let mut random = Random::new([seed, call as u64, input as u64]);
        let mut next = || match self {
            Fill::Zeros => 0.0,
            Fill::Ones => 1.0,
            Fill::Random => {
                let value = low + random.unit() * (high - low);
                if dtype.is_float() { value } else { value.floor() }
            }
        };
        if dtype == DType::F32 {
            let values: Vec<f32> = (0..count).map(|_| next() as f32).collect();
            return Array::from_slice(&values, shape);
        }
        let values: Vec<f64> = (0..count).map(|_| next()).collect();
        super::convert::cast(&Array::from_slice(&values, shape)?, dtype)
    }
}

/// Numbers that differ; nothing more is asked of them.
struct Random(u64);

impl Random {
    fn new(seeds: [u64; 3]) -> Self {
        let mut random = Self(0x9e37_79b9_7f4a_7c15);
        for seed in seeds {
            random.0 ^= seed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
            random.next();
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 on, below 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}
