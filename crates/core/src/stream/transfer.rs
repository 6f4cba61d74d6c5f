//! Transfers between host and device.

use super::{Stream, Timepoint};
use crate::dtype::as_bytes;
use crate::{Buffer, Command, DType, Element, Error, HostBytes, Operand, Result};

/// `u8` also carries `bool` and the bytes of what is only stored; everything else must be what it is.
fn check_dtype<T: Element>(op: &'static str, dtype: DType) -> Result<()> {
    let bytes = dtype == DType::Bool || dtype.is_storage();
    if T::DTYPE == dtype || (T::DTYPE == DType::U8 && bytes) {
        return Ok(());
    }
    Err(Error::Invalid { op, reason: format!("{} elements for {dtype}", T::DTYPE) })
}

/// Memory that the stream's device reaches by itself, where it has that for a transfer of this size.
fn reached(stream: &Stream, bytes: usize) -> Option<HostBytes> {
    let inner = stream.inner();
    // A device that is gone, or was inherited through a fork, is asked for nothing.
    inner.device_inner().check().ok()?;
    inner.queue().host_memory(bytes).filter(|host| host.len() == bytes)
}

pub(super) fn host_copy_of(stream: &Stream, bytes: &[u8]) -> HostBytes {
    match reached(stream, bytes.len()) {
        Some(host) => host.written_with(bytes),
        None => HostBytes::copy_of(bytes),
    }
}

pub(super) fn host_filled_by<T: Element>(
    stream: &Stream,
    elements: usize,
    write: impl FnOnce(&mut [T]),
) -> HostBytes {
    let bytes = elements.saturating_mul(size_of::<T>());
    let mut host = match reached(stream, bytes) {
        Some(mut host) => {
            // The caller must not see what an earlier transfer left here.
            host.elements_mut::<u8>().fill(0);
            host
        }
        None => HostBytes::zeroed(bytes),
    };
    if host.is_backed() {
        write(host.elements_mut());
    }
    host
}

pub(super) fn upload<T: Element>(
    stream: &Stream,
    dst: Operand<&Buffer>,
    values: &[T],
) -> Result<Timepoint> {
    check_dtype::<T>("upload", dst.layout.dtype())?;
    stream.record(Command::upload(dst, host_copy_of(stream, as_bytes(values)))?)
}

pub(super) fn download(stream: &Stream, src: Operand<&Buffer>) -> Result<Download> {
    download_aligned(stream, src, src.layout.dtype().size())
}

pub(super) fn download_bytes(stream: &Stream, src: Operand<&Buffer>) -> Result<Vec<u8>> {
    download_aligned(stream, src, 1)?.bytes()
}

/// `align` is that of the elements of the vector that will take the memory over.
fn download_aligned(stream: &Stream, src: Operand<&Buffer>, align: usize) -> Result<Download> {
    let count = src.layout.dense_bytes();
    let bytes = reached(stream, count).unwrap_or_else(|| HostBytes::unwritten(count, align));
    let point = stream.record(Command::download(bytes.clone(), src)?)?;
    Ok(Download { bytes, dtype: src.layout.dtype(), point })
}

/// Elements on their way to the host.
///
/// On a GPU they are written by the device itself, if they are many, to memory that goes back to the stream
/// when the download is read or dropped. A download that is dropped early harms nobody: the memory stays
/// taken until the device is through with it.
///
/// ```
/// # use millstream_core::{fake, Config, DType, Layout};
/// # fn main() -> millstream_core::Result<()> {
/// # let (device, _) = fake::device(Config::default(), 1 << 20, 1)?;
/// let stream = device.stream()?;
/// let layout = Layout::contiguous(DType::F32, &[1024])?;
/// let buffer = stream.allocate(layout.dense_bytes())?;
/// # stream.upload(buffer.operand(layout), &[0f32; 1024])?;
/// let mut values = vec![0f32; 1024]; // used again for every answer
/// stream.download(buffer.operand(layout))?.read_into(&mut values)?;
/// // Or without any copy, where they lie:
/// let download = stream.download(buffer.operand(layout))?;
/// let sum: f32 = download.view::<f32>()?.iter().sum();
/// # Ok(())
/// # }
/// ```
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

    /// How many elements there are; of a type of 4 bits, how many bytes.
    pub fn elements(&self) -> usize {
        self.bytes.len() / self.dtype.size()
    }

    /// Waits for the elements. `u8` also reads `bool`, and the bytes of what is only stored.
    ///
    /// # Blocks when
    ///
    /// The elements have not arrived. Never for what `download.await` gave.
    ///
    /// # Errors
    ///
    /// Another element type, the fault of the work, no memory for them, a timeout, or a device that is gone.
    pub fn read<T: Element>(self) -> Result<Vec<T>> {
        check_dtype::<T>("download", self.dtype)?;
        self.take()
    }

    /// Waits for the elements and copies them to `target`, which a caller can use again. `u8` also reads
    /// `bool`.
    ///
    /// # Blocks when
    ///
    /// The elements have not arrived. Never for what `download.await` gave.
    ///
    /// # Errors
    ///
    /// Another number of elements, or as for [`read`](Self::read). `target` is only written if there is
    /// none.
    pub fn read_into<T: Element>(self, target: &mut [T]) -> Result<()> {
        check_dtype::<T>("download", self.dtype)?;
        if target.len() != self.elements() {
            let (room, given) = (target.len(), self.elements());
            let reason = format!("room for {room} elements, {given} given");
            return Err(Error::Invalid { op: "download", reason });
        }
        target.copy_from_slice(self.view()?);
        Ok(())
    }

    /// Waits for the elements and gives them where they lie, without copying. `u8` also reads `bool`.
    ///
    /// # Blocks when
    ///
    /// The elements have not arrived. Never for what `download.await` gave.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    pub fn view<T: Element>(&self) -> Result<&[T]> {
        check_dtype::<T>("download", self.dtype)?;
        let bytes = self.view_bytes()?;
        // SAFETY: host bytes are aligned for every element type, and any bit pattern is a valid one.
        Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), self.elements()) })
    }

    /// Waits for the elements and gives them as they lie in memory, without copying.
    ///
    /// # Blocks when
    ///
    /// The elements have not arrived. Never for what `download.await` gave.
    ///
    /// # Errors
    ///
    /// The fault of the work, a timeout, or a device that is gone.
    pub fn view_bytes(&self) -> Result<&[u8]> {
        self.arrive()?;
        // SAFETY: the only command that writes the bytes has passed and has written them, and nobody can
        // record another.
        Ok(unsafe { self.bytes.as_slice() })
    }

    /// Waits for the elements, as they lie in memory.
    ///
    /// # Blocks when
    ///
    /// The elements have not arrived. Never for what `download.await` gave.
    ///
    /// # Errors
    ///
    /// The fault of the work, no memory for them, a timeout, or a device that is gone.
    pub fn bytes(self) -> Result<Vec<u8>> {
        self.take()
    }

    fn take<T: Element>(self) -> Result<Vec<T>> {
        self.arrive()?;
        // SAFETY: the only command that writes the bytes has passed and has written them, and nobody can
        // record another.
        unsafe { self.bytes.into_vec() }
    }

    /// Waits until the bytes are written.
    fn arrive(&self) -> Result<()> {
        self.point.wait_passed()?;
        self.written()
    }

    /// What went wrong with the bytes, which have passed.
    pub(super) fn written(&self) -> Result<()> {
        self.bytes.fault().map_or(Ok(()), |fault| Err(fault.report()))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Config, Layout, fake};

    #[test]
    fn a_download_that_was_not_written_is_not_read() {
        let (device, _) = fake::device(Config::default(), 1 << 20, 1).unwrap();
        let stream = device.stream().unwrap();
        let buffer = stream.allocate(16).unwrap();
        let layout = Layout::contiguous(DType::F32, &[4]).unwrap();
        stream.upload(buffer.operand(layout), &[0f32; 4]).unwrap();
        let download = || {
            let download = stream.download(buffer.operand(layout)).unwrap();
            download.bytes.fail(&Error::OutOfHostMemory { requested: 1 }.into());
            download
        };
        let kept = Error::OutOfHostMemory { requested: 1 };
        assert_eq!(download().view::<f32>().unwrap_err(), kept);
        assert_eq!(download().read::<f32>().unwrap_err(), kept);
        assert_eq!(download().read_into(&mut [0f32; 4]).unwrap_err(), kept);
        assert_eq!(download().bytes().unwrap_err(), kept);
        // The command itself has passed, and what comes behind it is as ever.
        stream.synchronize().unwrap();
    }
}
