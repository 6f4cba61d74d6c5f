//! Random numbers.

use millstream_core::{Command, DType, Device, Distribution};

use super::{OpRecorder, Tensor};
use crate::Result;

impl Tensor {
    /// Random numbers, uniformly distributed from 0 to 1. The same seed gives the same numbers.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::rand(&[100], 42, DType::F32, &Device::cpu()?)?;
    /// assert!(a.to_vec::<f32>()?.iter().all(|number| (0.0..1.0).contains(number)));
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A type that is not floating point, or no memory.
    pub fn rand(shape: &[usize], seed: u64, dtype: DType, device: &Device) -> Result<Self> {
        Self::random(
            "rand",
            shape,
            Distribution::Uniform { low: 0.0, high: 1.0 },
            seed,
            dtype,
            device,
        )
    }

    /// Random numbers, normally distributed with mean 0 and standard deviation 1. The same seed gives the same
    /// numbers.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let device = Device::cpu()?;
    /// let (a, b) = (Tensor::randn(&[3], 42, DType::F32, &device)?, Tensor::randn(&[3], 42, DType::F32, &device)?);
    /// assert_eq!(a.to_vec::<f32>()?, b.to_vec::<f32>()?); // the same seed
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A type that is not floating point, or no memory.
    pub fn randn(shape: &[usize], seed: u64, dtype: DType, device: &Device) -> Result<Self> {
        let normal = Distribution::Normal { mean: 0.0, deviation: 1.0 };
        Self::random("randn", shape, normal, seed, dtype, device)
    }

    pub(crate) fn random(
        op: &'static str,
        shape: &[usize],
        distribution: Distribution,
        seed: u64,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let recorder = OpRecorder::new(op, device)?;
        let result = recorder.output(dtype, shape)?;
        recorder.record(Command::random(result.operand(), distribution, seed, 0))?;
        Ok(result)
    }
}
