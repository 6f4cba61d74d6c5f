//! Numbers on the host.

use std::fmt;

use bytes::Bytes;
use half::{bf16, f16};
use millstream_core::{DType, Element, Layout, Scalar, TensorSpec, as_bytes};
use millstream_nn::Tensor;

use crate::{Error, Result};

/// Numbers on the host: an element type, a shape, and dense bytes in row-major order. Clones share the bytes, which may
/// be those of a mapped file, and never change.
///
/// ```
/// use millstream_graph::Array;
///
/// let array = Array::from_slice(&[1i64, 2, 3, 4], &[2, 2])?;
/// assert_eq!(array.shape(), [2, 2]);
/// assert_eq!(array.to_i64s()?, [1, 2, 3, 4]);
/// # Ok::<(), millstream_core::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Array {
    spec: TensorSpec,
    bytes: Bytes,
}

fn invalid<T>(reason: String) -> Result<T> {
    Err(Error::Invalid { op: "array", reason })
}

impl Array {
    /// An array of these bytes, in the byte order of the machine.
    ///
    /// # Errors
    ///
    /// Another number of bytes than the shape needs, a rank above [`MAX_RANK`](millstream_core::MAX_RANK), or more
    /// elements than can be addressed.
    pub fn new(dtype: DType, shape: &[usize], bytes: impl Into<Bytes>) -> Result<Self> {
        let (layout, bytes) = (Layout::contiguous(dtype, shape)?, bytes.into());
        if bytes.len() != layout.dense_bytes() {
            let (found, wanted) = (bytes.len(), layout.dense_bytes());
            return invalid(format!("{found} bytes for {dtype}{shape:?}, which takes {wanted}"));
        }
        Ok(Self { spec: TensorSpec::of(&layout), bytes })
    }

    /// An array of these elements.
    ///
    /// # Errors
    ///
    /// Another number of elements than the shape has.
    pub fn from_slice<T: Element>(values: &[T], shape: &[usize]) -> Result<Self> {
        Self::new(T::DTYPE, shape, Bytes::copy_from_slice(as_bytes(values)))
    }

    /// An array of rank 0.
    pub fn scalar<T: Element>(value: T) -> Self {
        let bytes = Bytes::copy_from_slice(as_bytes(&[value]));
        Self { spec: TensorSpec::of(&Layout::scalar(T::DTYPE)), bytes }
    }

    /// A truth value, as an array of rank 0.
    pub fn truth(value: bool) -> Self {
        let bytes = Bytes::copy_from_slice(&[u8::from(value)]);
        Self { spec: TensorSpec::of(&Layout::scalar(DType::Bool)), bytes }
    }

    /// An array of rank 1 of `i64`, which shapes and axes are.
    ///
    /// # Errors
    ///
    /// More elements than can be addressed.
    pub fn vector(values: &[i64]) -> Result<Self> {
        Self::from_slice(values, &[values.len()])
    }

    /// Numbers that are rounded to a type.
    ///
    /// # Errors
    ///
    /// Another number of elements than the shape has, or a type of which two share a byte.
    pub fn of_scalars(dtype: DType, shape: &[usize], values: &[Scalar]) -> Result<Self> {
        if dtype.per_byte() != 1 {
            return invalid(format!("{dtype} cannot be made of single numbers"));
        }
        let mut bytes = Vec::with_capacity(values.len() * dtype.size());
        for value in values {
            bytes.extend_from_slice(&value.to_bytes(dtype)[..dtype.size()]);
        }
        Self::new(dtype, shape, bytes)
    }

    /// The numbers of a tensor. Waits for them.
    ///
    /// # Errors
    ///
    /// What went wrong while they were computed.
    pub fn of_tensor(tensor: &Tensor) -> Result<Self> {
        let bytes = tensor.download()?.bytes()?;
        Self::new(tensor.dtype(), tensor.shape(), bytes)
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.spec.dtype()
    }

    /// The size of each axis.
    pub fn shape(&self) -> &[usize] {
        self.spec.shape()
    }

    /// Element type and shape.
    pub fn spec(&self) -> TensorSpec {
        self.spec
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.shape().iter().product()
    }

    /// The bytes, dense and in row-major order.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The same numbers in another shape.
    ///
    /// # Errors
    ///
    /// A shape of another number of elements.
    pub fn reshaped(&self, shape: &[usize]) -> Result<Self> {
        Self::new(self.dtype(), shape, self.bytes.clone())
    }

    /// The elements; of `bool` and of types that are only stored, the bytes as `u8`.
    ///
    /// # Errors
    ///
    /// Another element type.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let of_bytes = self.dtype() == DType::Bool || self.dtype().is_storage();
        if self.dtype() != T::DTYPE && !(T::DTYPE == DType::U8 && of_bytes) {
            return invalid(format!("{} elements of {}", T::DTYPE, self.spec));
        }
        Ok(millstream_core::from_bytes(&self.bytes))
    }

    /// Every element as a [`Scalar`].
    ///
    /// # Errors
    ///
    /// A type that is only stored.
    pub fn to_scalars(&self) -> Result<Vec<Scalar>> {
        fn read<T: Element>(bytes: &Bytes, to: impl Fn(T) -> Scalar) -> Vec<Scalar> {
            millstream_core::from_bytes::<T>(bytes).into_iter().map(to).collect()
        }
        let bytes = &self.bytes;
        Ok(match self.dtype() {
            DType::F32 => read::<f32>(bytes, Scalar::from),
            DType::F64 => read::<f64>(bytes, Scalar::from),
            DType::F16 => read::<f16>(bytes, |value| Scalar::from(value.to_f32())),
            DType::BF16 => read::<bf16>(bytes, |value| Scalar::from(value.to_f32())),
            DType::I8 => read::<i8>(bytes, |value| Scalar::Int(value.into())),
            DType::I16 => read::<i16>(bytes, |value| Scalar::Int(value.into())),
            DType::I32 => read::<i32>(bytes, Scalar::from),
            DType::I64 => read::<i64>(bytes, Scalar::from),
            DType::U8 => read::<u8>(bytes, |value| Scalar::Int(value.into())),
            DType::U16 => read::<u16>(bytes, |value| Scalar::Int(value.into())),
            DType::U32 => read::<u32>(bytes, Scalar::from),
            DType::U64 => read::<u64>(bytes, Scalar::from),
            DType::Bool => bytes.iter().map(|&byte| Scalar::Bool(byte != 0)).collect(),
            DType::F8E4M3FN
            | DType::F8E5M2
            | DType::F8E4M3FNUZ
            | DType::F8E5M2FNUZ
            | DType::F8E8M0
            | DType::I4
            | DType::U4
            | DType::F4E2M1 => return invalid(format!("{} is only stored", self.dtype())),
        })
    }

    /// The elements of an array of integers or truth values.
    ///
    /// # Errors
    ///
    /// Another element type.
    pub fn to_i64s(&self) -> Result<Vec<i64>> {
        if self.dtype() == DType::I64 {
            return self.to_vec();
        }
        if !self.dtype().is_int() && self.dtype() != DType::Bool {
            return invalid(format!("integers are needed, found {}", self.spec));
        }
        Ok(self.to_scalars()?.into_iter().map(Scalar::as_i64).collect())
    }

    /// The elements as `f64`.
    ///
    /// # Errors
    ///
    /// A type that is only stored.
    pub fn to_f64s(&self) -> Result<Vec<f64>> {
        Ok(self.to_scalars()?.into_iter().map(Scalar::as_f64).collect())
    }

    /// The one element that there is, of any shape.
    ///
    /// # Errors
    ///
    /// More elements or none, or a type that is only stored.
    pub fn to_scalar(&self) -> Result<Scalar> {
        match self.to_scalars()?[..] {
            [value] => Ok(value),
            _ => invalid(format!("one element is needed, found {}", self.spec)),
        }
    }

    /// The numbers as a tensor of a device.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn to_tensor(&self, device: &millstream_core::Device) -> Result<Tensor> {
        Tensor::from_bytes(&self.bytes, self.shape(), self.dtype(), device)
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        write!(f, "{}", self.spec)?;
        match self.to_scalars() {
            Ok(values) if values.len() <= SHOWN => {
                let texts: Vec<String> = values.iter().map(Scalar::to_string).collect();
                write!(f, " [{}]", texts.join(", "))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
