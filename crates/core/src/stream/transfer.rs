//! Transfers between host and device.

use super::{Stream, Timepoint};
use crate::dtype::as_bytes;
use crate::{Buffer, Command, DType, Element, Error, HostBytes, Operand, Result};

/// `u8` also carries `bool`; everything else must be what it is.
fn check_dtype<T: Element>(op: &'static str, dtype: DType) -> Result<()> {
    if T::DTYPE == dtype || (T::DTYPE == DType::U8 && dtype == DType::Bool) {
        return Ok(());
    }
    Err(Error::InvalidCommand { op, reason: format!("{} elements for {dtype}", T::DTYPE) })
}

pub(super) fn upload<T: Element>(
    stream: &Stream,
    dst: Operand<&Buffer>,
    values: &[T],
) -> Result<Timepoint> {
    check_dtype::<T>("upload", dst.layout.dtype())?;
    stream.record(Command::upload(dst, HostBytes::copy_of(as_bytes(values)))?)
}

pub(super) fn download(stream: &Stream, src: Operand<&Buffer>) -> Result<Download> {
    download_aligned(stream, src, src.layout.dtype().size())
}

pub(super) fn download_bytes(stream: &Stream, src: Operand<&Buffer>) -> Result<Vec<u8>> {
    download_aligned(stream, src, 1)?.bytes()
}

/// `align` is that of the elements of the vector that will take the memory over.
fn download_aligned(stream: &Stream, src: Operand<&Buffer>, align: usize) -> Result<Download> {
    let bytes = HostBytes::unwritten(src.layout.dense_bytes(), align);
    let point = stream.record(Command::download(bytes.clone(), src)?)?;
    Ok(Download { bytes, dtype: src.layout.dtype(), point })
}

/// Elements on their way to the host.
#[derive(Debug)]
pub struct Download {
    bytes: HostBytes,
    dtype: DType,
    point: Timepoint,
}

impl Download {
    /// The point at which they have arrived.
    pub fn timepoint(&self) -> Timepoint {
        self.point
    }

    /// Waits for the elements. `u8` also reads `bool`.
    ///
    /// # Errors
    ///
    /// Another element type, the fault of the work, a timeout, or a device that is gone.
    pub fn read<T: Element>(self) -> Result<Vec<T>> {
        check_dtype::<T>("download", self.dtype)?;
        self.take()
    }

    /// Waits for the elements, as they lie in memory.
    ///
    /// # Errors
    ///
    /// The fault of the work, a timeout, or a device that is gone.
    pub fn bytes(self) -> Result<Vec<u8>> {
        self.take()
    }

    fn take<T: Element>(self) -> Result<Vec<T>> {
        self.point.wait()?;
        // SAFETY: the only command that writes the bytes has passed, and nobody can record another.
        Ok(unsafe { self.bytes.into_vec() })
    }
}
