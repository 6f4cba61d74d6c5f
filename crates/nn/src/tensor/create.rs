//! Making tensors.

use std::borrow::Cow;

use millstream_core::{Command, DType, Device, Distribution, HostBytes, Scalar};

use super::{OpRecorder, Tensor};
use crate::bytes::{collected, room};
use crate::error::invalid;
use crate::{Result, Value};

impl Tensor {
    /// All elements the same.
    ///
    /// # Errors
    ///
    /// A shape that cannot be, or no memory.
    pub fn full(
        shape: &[usize],
        value: impl Into<Scalar>,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let recorder = OpRecorder::new("full", device)?;
        let result = recorder.output(dtype, shape)?;
        recorder.record(Command::fill(result.operand(), value))?;
        Ok(result)
    }

    /// All elements 0.
    ///
    /// # Errors
    ///
    /// As for [`full`](Self::full).
    pub fn zeros(shape: &[usize], dtype: DType, device: &Device) -> Result<Self> {
        Self::full(shape, 0i64, dtype, device)
    }

    /// All elements 1.
    ///
    /// # Errors
    ///
    /// As for [`full`](Self::full).
    pub fn ones(shape: &[usize], dtype: DType, device: &Device) -> Result<Self> {
        Self::full(shape, 1i64, dtype, device)
    }

    /// `start`, `start + step`, … up to but without `end`.
    ///
    /// # Errors
    ///
    /// A step of 0 or in the wrong direction, numbers that are not finite, or no memory.
    pub fn arange(start: f64, end: f64, step: f64, dtype: DType, device: &Device) -> Result<Self> {
        let count = ((end - start) / step).ceil();
        // Above 2^53 neighboring counts are no longer told apart.
        if !(0.0..=9e15).contains(&count) || step == 0.0 {
            return invalid("arange", format!("{start} to {end} by {step} has no such elements"));
        }
        if dtype.is_storage() {
            return invalid("arange", format!("{dtype} is only stored: make f32 and convert it"));
        }
        // First the device's memory, whose lack is an error.
        let recorder = OpRecorder::new("arange", device)?;
        let result = recorder.output(dtype, &[count as usize])?;
        let mut bytes = room(result.layout.dense_bytes())?;
        for index in 0..count as usize {
            let value = start + index as f64 * step;
            let whole = dtype.is_int() && value.abs() < 9e18;
            let scalar = if whole { Scalar::Int(value as i64) } else { value.into() };
            bytes.extend_from_slice(&scalar.to_bytes(dtype)[..dtype.size()]);
        }
        recorder.upload(&result, recorder.host_copy_of(&bytes))?;
        Ok(result)
    }

    /// `count` numbers from `start` to `end`, both among them, evenly apart.
    ///
    /// # Errors
    ///
    /// A type that is not floating point, or no memory.
    pub fn linspace(
        start: f64,
        end: f64,
        count: usize,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        if !dtype.is_float() {
            return invalid("linspace", format!("{dtype} has no numbers in between"));
        }
        let recorder = OpRecorder::new("linspace", device)?;
        let result = recorder.output(dtype, &[count])?;
        let mut bytes = room(result.layout.dense_bytes())?;
        for index in 0..count {
            // From both ends, so that both are exact.
            let part = index as f64 / count.saturating_sub(1).max(1) as f64;
            let scalar = Scalar::from(start * (1.0 - part) + end * part);
            bytes.extend_from_slice(&scalar.to_bytes(dtype)[..dtype.size()]);
        }
        recorder.upload(&result, recorder.host_copy_of(&bytes))?;
        Ok(result)
    }

    /// Ones on the diagonal of a square, zeros elsewhere.
    ///
    /// # Errors
    ///
    /// As for [`full`](Self::full).
    pub fn eye(size: usize, dtype: DType, device: &Device) -> Result<Self> {
        let places = Self::arange(0.0, size as f64, 1.0, DType::I64, device)?;
        places.unsqueeze(1)?.eq(&places)?.to_dtype(dtype)
    }

    /// Evenly distributed in `0 .. 1`; the seed decides every element.
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

    /// Normally distributed around 0 with a deviation of 1; the seed decides every element.
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

    /// From elements in row-major order.
    ///
    /// # Errors
    ///
    /// Another number of elements than the shape has, or no memory.
    pub fn from_slice<T: Value>(values: &[T], shape: &[usize], device: &Device) -> Result<Self> {
        Self::from_bytes(&T::bytes_of(values), shape, T::DTYPE, device)
    }

    /// From elements in row-major order, as [`from_slice`](Self::from_slice).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn from_vec<T: Value>(values: Vec<T>, shape: &[usize], device: &Device) -> Result<Self> {
        Self::from_slice(&values, shape, device)
    }

    /// A tensor of rank 0.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn scalar<T: Value>(value: T, device: &Device) -> Result<Self> {
        Self::from_slice(&[value], &[], device)
    }

    /// From the bytes of elements in row-major order, in the order of bytes of this machine.
    ///
    /// # Errors
    ///
    /// Another number of bytes than the shape needs, or no memory.
    pub fn from_bytes(
        bytes: &[u8],
        shape: &[usize],
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let recorder = OpRecorder::new("from_slice", device)?;
        check_size("from_slice", bytes.len(), shape, dtype)?;
        let result = recorder.output(dtype, shape)?;
        let mut bytes = Cow::from(bytes);
        if dtype == DType::Bool {
            // Devices rely on 0 and 1.
            bytes = collected(bytes.len(), bytes.iter().map(|&byte| u8::from(byte != 0)))?.into();
        }
        recorder.upload(&result, recorder.host_copy_of(&bytes))?;
        Ok(result)
    }

    /// From bytes as [`from_bytes`](Self::from_bytes) takes them, which are not copied before the device
    /// reads them. [`Stream::host_copy_of`](millstream_core::Stream::host_copy_of) puts them where that is
    /// quickest; a clone can be used for the next tensor.
    ///
    /// ```
    /// use millstream_core::{DType, Device};
    /// use millstream_nn::Tensor;
    /// # use millstream_cpu as _;
    /// # fn main() -> millstream_nn::Result<()> {
    /// let device = Device::cpu()?;
    /// let pixels = vec![1u8; 3 * 32 * 32];
    /// let image = device.stream()?.host_copy_of(&pixels);
    /// for _ in 0..3 {
    ///     let input = Tensor::from_host(image.clone(), &[1, 3, 32, 32], DType::U8, &device)?;
    ///     assert_eq!(input.to_vec::<u8>()?, pixels);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Another number of bytes than the shape needs, `bool` (whose bytes must be looked at first: use
    /// [`from_slice`](Self::from_slice)), or no memory.
    pub fn from_host(
        bytes: HostBytes,
        shape: &[usize],
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let recorder = OpRecorder::new("from_host", device)?;
        check_size("from_host", bytes.len(), shape, dtype)?;
        if dtype == DType::Bool {
            return invalid("from_host", "bools are made by from_slice".into());
        }
        let result = recorder.output(dtype, shape)?;
        recorder.upload(&result, bytes)?;
        Ok(result)
    }
}

fn check_size(op: &'static str, bytes: usize, shape: &[usize], dtype: DType) -> Result<()> {
    let elements = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
    if elements.and_then(|elements| dtype.bytes(elements)) == Some(bytes) {
        return Ok(());
    }
    let given = bytes / dtype.size() * dtype.per_byte();
    invalid(op, format!("{given} {dtype} elements for shape {shape:?}"))
}
