//! Reading values, which waits for them.

use millstream_core::Stream;

use super::Tensor;
use crate::error::invalid;
use crate::{Result, Value};

impl Tensor {
    /// The elements in row-major order. Waits until they are there.
    ///
    /// # Errors
    ///
    /// Another element type, what went wrong while they were computed, or a timeout.
    pub fn to_vec<T: Value>(&self) -> Result<Vec<T>> {
        if T::DTYPE != self.dtype() {
            let (asked, found) = (T::DTYPE, self.dtype());
            return invalid(
                "to_vec",
                format!("the elements are {found}, not {asked}: convert them with to_dtype first"),
            );
        }
        T::read(Stream::visit(&self.device())?.download(self.operand())?)
    }

    /// The bytes of the elements in row-major order. Waits until they are there.
    ///
    /// # Errors
    ///
    /// What went wrong while they were computed, or a timeout.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        Ok(Stream::visit(&self.device())?.download_bytes(self.operand())?)
    }

    /// The one element of a tensor that has one. Waits until it is there.
    ///
    /// # Errors
    ///
    /// Another number of elements, or as for [`to_vec`](Self::to_vec).
    pub fn to_scalar<T: Value>(&self) -> Result<T> {
        match *self.to_vec()? {
            [value] => Ok(value),
            _ => invalid("to_scalar", format!("shape {:?} has not one element", self.shape())),
        }
    }

    /// The element at a place, one index per axis. Waits until it is there.
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
