//! Reading values, which waits for them.

use millstream_core::{Download, Stream};

use super::Tensor;
use crate::error::invalid;
use crate::{Result, Value};

impl Tensor {
    /// The elements in row-major order. Waits until they are there.
    ///
    /// # Blocks when
    ///
    /// The elements are not there. [`to_vec_async`](Self::to_vec_async) does not.
    ///
    /// # Errors
    ///
    /// Another element type, what went wrong while they were computed, or a timeout.
    pub fn to_vec<T: Value>(&self) -> Result<Vec<T>> {
        self.check_dtype::<T>("to_vec")?;
        T::read(self.download()?)
    }

    /// Like [`to_vec`](Self::to_vec), without holding a thread: the read is recorded now, and the future is ready
    /// when the elements are there. It borrows nothing and may be awaited on any executor. Dropping it cancels the
    /// waiting; executors have timeouts.
    ///
    /// ```
    /// use millstream_core::{DType, Device};
    /// use millstream_nn::{Linear, Module, Result, Tensor};
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
    /// The future gives those of [`to_vec`](Self::to_vec), but for a timeout.
    pub fn to_vec_async<T: Value>(&self) -> impl Future<Output = Result<Vec<T>>> + Send + use<T> {
        let download = self.check_dtype::<T>("to_vec_async").and_then(|()| self.download());
        async move { T::read(download?.await?) }
    }

    /// Copies the elements in row-major order to `target`, which can be used again for the next answer.
    /// Waits until they are there.
    ///
    /// ```
    /// use millstream_core::{DType, Device};
    /// use millstream_nn::Tensor;
    /// # use millstream_cpu as _;
    /// # fn main() -> millstream_nn::Result<()> {
    /// let device = Device::cpu()?;
    /// let mut answer = [0f32; 4];
    /// for value in 1..4 {
    ///     Tensor::full(&[2, 2], value as f32, DType::F32, &device)?.read_into(&mut answer)?;
    ///     assert_eq!(answer, [value as f32; 4]);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Blocks when
    ///
    /// The elements are not there. [`to_vec_async`](Self::to_vec_async) does not.
    ///
    /// # Errors
    ///
    /// Another number of elements, or as for [`to_vec`](Self::to_vec).
    pub fn read_into<T: Value>(&self, target: &mut [T]) -> Result<()> {
        self.check_dtype::<T>("read_into")?;
        if target.len() != self.elements() {
            let (room, shape) = (target.len(), self.shape());
            return invalid("read_into", format!("room for {room} elements of shape {shape:?}"));
        }
        T::read_into(self.download()?, target)
    }

    /// The elements on their way to the host: to wait for later, or to look at where they lie
    /// ([`Download::view`]).
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

    /// The bytes of the elements in row-major order. Waits until they are there.
    ///
    /// # Blocks when
    ///
    /// The elements are not there. [`to_vec_async`](Self::to_vec_async) does not.
    ///
    /// # Errors
    ///
    /// What went wrong while they were computed, or a timeout.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        Stream::current_unleased(&self.device())?.download_bytes(self.operand())
    }

    /// The one element of a tensor that has one. Waits until it is there.
    ///
    /// # Blocks when
    ///
    /// The elements are not there. [`to_vec_async`](Self::to_vec_async) does not.
    ///
    /// # Errors
    ///
    /// Another number of elements, or as for [`to_vec`](Self::to_vec).
    pub fn to_scalar<T: Value>(&self) -> Result<T> {
        let misfit =
            || invalid("to_scalar", format!("shape {:?} has not one element", self.shape()));
        if self.elements() != 1 {
            return misfit();
        }
        match *self.to_vec()? {
            [value] => Ok(value),
            _ => misfit(),
        }
    }

    /// The element at a place, one index per axis. Waits until it is there.
    ///
    /// # Blocks when
    ///
    /// The elements are not there. [`to_vec_async`](Self::to_vec_async) does not.
    ///
    /// # Errors
    ///
    /// An index out of range, or as for [`to_vec`](Self::to_vec).
    pub fn item<T: Value>(&self, place: &[usize]) -> Result<T> {
        if place.len() != self.rank() {
            return invalid("item", format!("place {place:?} in shape {:?}", self.shape()));
        }
        let mut element = self.clone();
        for &index in place {
            element = element.select(0, index)?;
        }
        element.to_scalar()
    }
}
