//! Making tensors.

use std::borrow::Cow;
use std::ops::Range;

use millstream_core::{Command, DType, Device, HostBytes, HostOwner, Layout, Scalar, Stream};

use super::{OpRecorder, Tensor};
use crate::bytes::{collected, room};
use crate::error::invalid;
use crate::{Result, Value};

impl Tensor {
    /// A tensor with `value` for every element.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// assert_eq!(Tensor::full(&[2], 7.0f32, DType::F32, &Device::cpu()?)?.to_vec::<f32>()?, [7.0, 7.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A shape that is too large, or no memory.
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

    /// A tensor of zeros.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// assert_eq!(Tensor::zeros(&[2], DType::F32, &Device::cpu()?)?.to_vec::<f32>()?, [0.0, 0.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`full`](Self::full).
    pub fn zeros(shape: &[usize], dtype: DType, device: &Device) -> Result<Self> {
        Self::full(shape, 0i64, dtype, device)
    }

    /// A tensor of ones.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// assert_eq!(Tensor::ones(&[2], DType::F32, &Device::cpu()?)?.to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`full`](Self::full).
    pub fn ones(shape: &[usize], dtype: DType, device: &Device) -> Result<Self> {
        Self::full(shape, 1i64, dtype, device)
    }

    /// `start`, `start + step`, … up to `end`, which is not included.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::arange(0.0, 6.0, 2.0, DType::I64, &Device::cpu()?)?;
    /// assert_eq!(a.to_vec::<i64>()?, [0, 2, 4]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A step of 0 or in the wrong direction, numbers that are not finite, or no memory.
    pub fn arange(start: f64, end: f64, step: f64, dtype: DType, device: &Device) -> Result<Self> {
        let count = ((end - start) / step).ceil();
        // Above 2^53, an `f64` cannot hold every count.
        if !(0.0..=9e15).contains(&count) || step == 0.0 {
            return invalid(
                "arange",
                format!("there are no steps of {step} from {start} to {end}"),
            );
        }
        if dtype.is_storage() {
            return invalid(
                "arange",
                format!("{dtype} is a storage type: make f32 and convert it"),
            );
        }
        // The device's memory comes first: if it is too small, the host need not try.
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

    /// `count` evenly spaced numbers from `start` to `end`, both included.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::linspace(0.0, 1.0, 5, DType::F32, &Device::cpu()?)?;
    /// assert_eq!(a.to_vec::<f32>()?, [0.0, 0.25, 0.5, 0.75, 1.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
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
            return invalid("linspace", format!("{dtype} is not a floating-point type"));
        }
        let recorder = OpRecorder::new("linspace", device)?;
        let result = recorder.output(dtype, &[count])?;
        let mut bytes = room(result.layout.dense_bytes())?;
        for index in 0..count {
            // A weighted sum of both ends, so that both are exact.
            let part = index as f64 / count.saturating_sub(1).max(1) as f64;
            let scalar = Scalar::from(start * (1.0 - part) + end * part);
            bytes.extend_from_slice(&scalar.to_bytes(dtype)[..dtype.size()]);
        }
        recorder.upload(&result, recorder.host_copy_of(&bytes))?;
        Ok(result)
    }

    /// The identity matrix: ones on the diagonal, zeros elsewhere.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::eye(2, DType::F32, &Device::cpu()?)?;
    /// assert_eq!(a.to_vec2::<f32>()?, [[1.0, 0.0], [0.0, 1.0]]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`full`](Self::full).
    pub fn eye(size: usize, dtype: DType, device: &Device) -> Result<Self> {
        let places = Self::arange(0.0, size as f64, 1.0, DType::I64, device)?;
        places.unsqueeze(1)?.eq(&places)?.to_dtype(dtype)
    }

    /// From elements in row-major order.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2], &Device::cpu()?)?;
    /// assert_eq!(a.to_vec2::<f32>()?, [[1.0, 2.0], [3.0, 4.0]]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A number of elements that is not that of the shape, or no memory.
    pub fn from_slice<T: Value>(values: &[T], shape: &[usize], device: &Device) -> Result<Self> {
        Self::from_bytes(&T::bytes_of(values), shape, T::DTYPE, device)
    }

    /// From elements in row-major order, as [`from_slice`](Self::from_slice).
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::from_vec(vec![1i64, 2, 3, 4, 5, 6], &[2, 3], &Device::cpu()?)?;
    /// assert_eq!(a.to_vec2::<i64>()?, [[1, 2, 3], [4, 5, 6]]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`from_slice`](Self::from_slice).
    pub fn from_vec<T: Value>(values: Vec<T>, shape: &[usize], device: &Device) -> Result<Self> {
        Self::from_slice(&values, shape, device)
    }

    /// A tensor of rank 0.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::scalar(2.5f32, &Device::cpu()?)?;
    /// assert_eq!((a.rank(), a.to_scalar::<f32>()?), (0, 2.5));
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn scalar<T: Value>(value: T, device: &Device) -> Result<Self> {
        Self::from_slice(&[value], &[], device)
    }

    /// From the bytes of elements in row-major order, in the byte order of this machine.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::from_bytes(&[1, 2, 3, 4], &[2, 2], DType::U8, &Device::cpu()?)?;
    /// assert_eq!(a.to_vec2::<u8>()?, [[1, 2], [3, 4]]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A number of bytes that is not that of the shape, or no memory.
    pub fn from_bytes(
        bytes: &[u8],
        shape: &[usize],
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let recorder = OpRecorder::new("from_slice", device)?;
        check_size("from_slice", bytes.len(), shape, dtype)?;
        let mut bytes = Cow::from(bytes);
        if dtype == DType::Bool {
            // Devices rely on 0 and 1.
            bytes = collected(bytes.len(), bytes.iter().map(|&byte| u8::from(byte != 0)))?.into();
        }
        recorder.output_with(dtype, shape, &bytes)
    }

    /// A tensor whose elements lie in memory that somebody keeps, and are read there by the device. `None` if the device cannot.
    ///
    /// # Errors
    ///
    /// A range that is not that of the shape, or a device that is gone.
    pub(crate) fn wrapping(
        owner: HostOwner,
        range: Range<usize>,
        shape: &[usize],
        dtype: DType,
        device: &Device,
    ) -> Result<Option<Self>> {
        check_size("wrap", range.len(), shape, dtype)?;
        // Devices rely on flags of 0 and 1, which a file need not have, and on whole bytes.
        if dtype == DType::Bool || dtype.per_byte() > 1 {
            return Ok(None);
        }
        let Some((buffer, offset)) = Stream::current_unleased(device)?.wrap(owner, range)? else {
            return Ok(None);
        };
        if !offset.is_multiple_of(dtype.size()) {
            return Ok(None);
        }
        let dense = Layout::contiguous(dtype, shape)?;
        let layout = Layout::strided(dtype, shape, dense.strides(), offset / dtype.size())?;
        Ok(Some(Self { buffer, layout }))
    }

    /// As [`from_bytes`](Self::from_bytes), without a copy on the host: the device reads these bytes.
    /// [`Stream::host_copy_of`](millstream_core::Stream::host_copy_of) puts them in memory that the device reads
    /// fastest. Clones share the bytes, so the next tensor can use them again.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    /// let device = Device::cpu()?;
    /// let pixels = vec![1u8; 3 * 32 * 32];
    /// let image = device.stream()?.host_copy_of(&pixels);
    /// for _ in 0..3 {
    ///     let input = Tensor::from_host(image.clone(), &[1, 3, 32, 32], DType::U8, &device)?;
    ///     assert_eq!(input.to_vec::<u8>()?, pixels);
    /// }
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A number of bytes that is not that of the shape, `bool` (whose bytes must be checked first: use
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
    match elements {
        Some(needed) => {
            invalid(op, format!("{given} {dtype} elements, but shape {shape:?} has {needed}"))
        }
        None => invalid(op, format!("shape {shape:?} has more elements than can be counted")),
    }
}
