//! Reading values, which waits for them.

use millstream_core::{Download, Stream};

use super::Tensor;
use crate::error::invalid;
use crate::{Result, Value};

impl Tensor {
    /// The elements in row-major order. Waits until they are computed.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[[1.0f32, 2.0], [3.0, 4.0]], &Device::cpu()?)?;
    /// assert_eq!(a.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]); // row by row
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Blocks when
    ///
    /// The elements are not computed yet. [`to_vec_async`](Self::to_vec_async) does not block.
    ///
    /// # Errors
    ///
    /// Another element type, what went wrong while they were computed, or a timeout.
    #[doc(alias = "tolist")]
    #[doc(alias = "numpy")]
    #[doc(alias = "to_vec1")]
    pub fn to_vec<T: Value>(&self) -> Result<Vec<T>> {
        self.check_dtype::<T>("to_vec")?;
        T::read(self.arrived()?)
    }

    /// Like [`to_vec`](Self::to_vec), without holding a thread: the read is recorded now, and the future is ready
    /// when the elements are computed. It borrows nothing and may be awaited on any executor. Dropping it cancels the
    /// waiting; executors have timeouts.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::nn::{Linear, Module};
    /// use millstream::{DType, Device, Result, Tensor};
    ///
    /// async fn answer(model: &Linear, input: &[f32], device: &Device) -> Result<Vec<f32>> {
    ///     device.ready().await?; // room for this call
    ///     let input = Tensor::from_slice(input, &[1, input.len()], device)?;
    ///     model.forward(&input)?.to_vec_async().await
    /// }
    /// ```
    ///
    /// # Blocks when
    ///
    /// Recording does, when this is called; see [`Stream::record`]. Never when it is awaited.
    ///
    /// # Errors
    ///
    /// The future returns the errors of [`to_vec`](Self::to_vec), except the timeout.
    pub fn to_vec_async<T: Value>(&self) -> impl Future<Output = Result<Vec<T>>> + Send + use<T> {
        let download = self.check_dtype::<T>("to_vec_async").and_then(|()| self.download());
        async move { T::read(download?.await?) }
    }

    /// Copies the elements in row-major order to `target`, which can be used again for the next answer.
    /// Waits until they are computed.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    /// let device = Device::cpu()?;
    /// let mut answer = [0f32; 4];
    /// for value in 1..4 {
    ///     Tensor::full(&[2, 2], value as f32, DType::F32, &device)?.read_into(&mut answer)?;
    ///     assert_eq!(answer, [value as f32; 4]);
    /// }
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Blocks when
    ///
    /// The elements are not computed yet. [`to_vec_async`](Self::to_vec_async) does not block.
    ///
    /// # Errors
    ///
    /// Another number of elements, or as for [`to_vec`](Self::to_vec).
    pub fn read_into<T: Value>(&self, target: &mut [T]) -> Result<()> {
        self.check_dtype::<T>("read_into")?;
        if target.len() != self.elements() {
            let (room, shape) = (target.len(), self.shape());
            let elements = self.elements();
            let there = format!("shape {shape:?} has {elements} elements");
            return invalid("read_into", format!("{there}, but the slice has room for {room}"));
        }
        T::read_into(self.arrived()?, target)
    }

    /// Starts to copy the elements to the host. Wait for them later, or read them without a further copy
    /// ([`Download::view`]).
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::ones(&[2], DType::F32, &Device::cpu()?)?;
    /// let download = a.download()?; // returns at once
    /// assert_eq!(download.view::<f32>()?, [1.0, 1.0]); // waits
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Blocks when
    ///
    /// Recording does; see [`Stream::record`].
    ///
    /// # Errors
    ///
    /// What went wrong while they were computed, if that is known already.
    pub fn download(&self) -> Result<Download> {
        Stream::current_unleased(&self.device())?.download(self.operand())
    }

    /// The elements, waited for.
    fn arrived(&self) -> Result<Download> {
        Stream::current_unleased(&self.device())?.read(self.operand())
    }

    fn check_dtype<T: Value>(&self, op: &'static str) -> Result<()> {
        if T::DTYPE == self.dtype() {
            return Ok(());
        }
        let (asked, found) = (T::DTYPE, self.dtype());
        invalid(
            op,
            format!("the elements are {found}, not {asked}: convert them with to_dtype first"),
        )
    }

    /// The bytes of the elements in row-major order. Waits until they are computed.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[1u8, 2, 255], &Device::cpu()?)?;
    /// assert_eq!(a.to_bytes()?, [1, 2, 255]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Blocks when
    ///
    /// The elements are not computed yet. [`to_vec_async`](Self::to_vec_async) does not block.
    ///
    /// # Errors
    ///
    /// What went wrong while they were computed, or a timeout.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        Stream::current_unleased(&self.device())?.download_bytes(self.operand())
    }

    /// The element of a tensor that has exactly one. Waits until it is computed.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let sum = Tensor::new(&[1i64, 2, 3], &Device::cpu()?)?.sum(.., false)?;
    /// assert_eq!(sum.to_scalar::<i64>()?, 6);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Blocks when
    ///
    /// The elements are not computed yet. [`to_vec_async`](Self::to_vec_async) does not block.
    ///
    /// # Errors
    ///
    /// Another number of elements, or as for [`to_vec`](Self::to_vec).
    #[doc(alias = "item")]
    pub fn to_scalar<T: Value>(&self) -> Result<T> {
        let misfit = || {
            let (shape, elements) = (self.shape(), self.elements());
            invalid(
                "to_scalar",
                format!("it reads one element, but shape {shape:?} has {elements}"),
            )
        };
        if self.elements() != 1 {
            return misfit();
        }
        match *self.to_vec()? {
            [value] => Ok(value),
            _ => misfit(),
        }
    }

    /// One element, by its index on each axis. Waits until it is computed.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[[1i64, 2], [3, 4]], &Device::cpu()?)?;
    /// assert_eq!(a.item::<i64>(&[1, 0])?, 3);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Blocks when
    ///
    /// The elements are not computed yet. [`to_vec_async`](Self::to_vec_async) does not block.
    ///
    /// # Errors
    ///
    /// An index out of range, or as for [`to_vec`](Self::to_vec).
    pub fn item<T: Value>(&self, place: &[usize]) -> Result<T> {
        if place.len() != self.rank() {
            let (count, shape) = (place.len(), self.shape());
            return invalid(
                "item",
                format!("{count} indices, but shape {shape:?} needs one per axis"),
            );
        }
        let mut element = self.clone();
        for &index in place {
            element = element.select(0, index)?;
        }
        element.to_scalar()
    }
}
