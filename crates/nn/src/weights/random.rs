//! Random weights.

use millstream_core::{DType, Device, Distribution};

use crate::{Result, Tensor};

/// The initial value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Init {
    /// All 0.
    Zeros,
    /// All 1.
    Ones,
    /// All equal.
    Constant(f32),
    /// Uniformly distributed between the bound and its negative.
    Uniform {
        /// The bound.
        bound: f32,
    },
    /// Normally distributed around 0.
    Normal {
        /// The standard deviation.
        deviation: f32,
    },
}

impl Init {
    /// PyTorch's initial weights of a layer in which this many inputs make one output.
    pub fn fan_in(inputs: usize) -> Self {
        Init::Uniform { bound: 1.0 / (inputs.max(1) as f32).sqrt() }
    }

    pub(super) fn make(
        self,
        name: &str,
        shape: &[usize],
        seed: u64,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        let distribution = match self {
            Init::Zeros => return Tensor::zeros(shape, dtype, device),
            Init::Ones => return Tensor::ones(shape, dtype, device),
            Init::Constant(value) => return Tensor::full(shape, value, dtype, device),
            Init::Uniform { bound } => Distribution::Uniform { low: -bound, high: bound },
            Init::Normal { deviation } => Distribution::Normal { mean: 0.0, deviation },
        };
        Tensor::random("weights", shape, distribution, seed ^ hash(name), dtype, device)
    }
}

/// FNV-1a, which is the same on every machine and in every version.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}
