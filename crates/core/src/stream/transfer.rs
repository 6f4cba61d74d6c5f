//! Transfers between host and device.

use std::ops::Range;
use std::ptr::NonNull;

use super::{Stream, Timepoint, large_upload};
use crate::backend::HostOwner;
use crate::dtype::as_bytes;
use crate::{
    Buffer, Command, DType, Element, Error, HostBytes, Layout, Operand, Result, memory, plan,
};

/// `u8` also stands for `bool` and for the bytes of storage types; any other type must match.
fn check_dtype<T: Element>(op: &'static str, dtype: DType) -> Result<()> {
    let bytes = dtype == DType::Bool || dtype.is_storage();
    let fits = size_of::<T>() == T::DTYPE.size();
    if fits && (T::DTYPE == dtype || (T::DTYPE == DType::U8 && bytes)) {
        return Ok(());
    }
    Err(Error::Invalid { op, reason: format!("{} elements for {dtype}", T::DTYPE) })
}

/// Pinned memory for a transfer of this size, if the stream's device has some.
pub(super) fn reached(stream: &Stream, bytes: usize) -> Option<HostBytes> {
    let inner = stream.inner();
    // Not from a device that is gone or was inherited through a fork.
    inner.device_inner().check().ok()?;
    inner.queue().host_memory(bytes).filter(|host| host.len() == bytes)
}

/// `align` is the alignment of the elements of the vector that will own the memory.
fn download_aligned(stream: &Stream, src: Operand<&Buffer>, align: usize) -> Result<Download> {
    let count = src.layout.dense_bytes();
    let bytes = reached(stream, count).unwrap_or_else(|| HostBytes::unwritten(count, align));
    let point = stream.record(Command::download(bytes.clone(), src)?)?;
    Ok(Download { bytes, dtype: src.layout.dtype(), point })
}

/// The same, arrived: read where they lie if that can be.
fn read_aligned(stream: &Stream, src: Operand<&Buffer>, align: usize) -> Result<Download> {
    let (device, buffer) = (stream.inner().device_inner(), src.buffer);
    let here = std::ptr::eq(device, buffer.block().home.device_inner());
    if here && buffer.is_readable_in_place(&src.layout) {
        device.check()?;
        let bytes = HostBytes::unwritten(src.layout.dense_bytes(), align);
        bytes.check_backed()?;
        let mut bytes = Some(bytes);
        let read = |found: &[u8]| bytes = bytes.take().map(|bytes| bytes.written_with(found));
        let point = buffer.read_in_place(&src.layout, read)?;
        if let Some((point, bytes)) = point.zip(bytes) {
            return Ok(Download { bytes, dtype: src.layout.dtype(), point });
        }
    }
    let download = download_aligned(stream, src, align)?;
    download.arrive()?;
    Ok(download)
}

impl Stream {
    /// Records a copy of host elements to the device. The elements are copied before this returns. Where the device
    /// reaches memory of the host, 32 MiB and more are copied piece by piece by several threads, while the device
    /// transfers the pieces before.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::memory::Layout;
    /// use millstream::{DType, Device};
    ///
    /// # fn main() -> millstream::Result<()> {
    /// let stream = Device::cpu()?.stream()?;
    /// let layout = Layout::contiguous(DType::F32, &[4])?;
    /// let buffer = stream.allocate(layout.dense_bytes())?;
    ///
    /// stream.upload(buffer.operand(layout), &[1f32, 2.0, 3.0, 4.0])?; // the values are copied: the slice is free
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Blocks when
    ///
    /// As for [`record`](Self::record); and 32 MiB and more wait for the device to take the first pieces.
    ///
    /// # Errors
    ///
    /// As for [`record`](Self::record), or another number of elements than `dst` has. Of 32 MiB and more some may then
    /// have been copied.
    pub fn upload<T: Element>(&self, dst: Operand<&Buffer>, values: &[T]) -> Result<Timepoint> {
        check_dtype::<T>("upload", dst.layout.dtype())?;
        self.upload_bytes(dst, as_bytes(values))
    }

    fn upload_bytes(&self, dst: Operand<&Buffer>, bytes: &[u8]) -> Result<Timepoint> {
        match large_upload::upload(self, dst, bytes) {
            Some(uploaded) => uploaded,
            None => self.record(Command::upload(dst, self.host_copy_of(bytes))?),
        }
    }

    /// A copy of some bytes, for [`Command::upload`] on this stream. It lies in pinned memory where that helps, so that
    /// the upload itself copies nothing on the host, however often it is repeated.
    pub fn host_copy_of(&self, bytes: &[u8]) -> HostBytes {
        match reached(self, bytes.len()) {
            Some(host) => host.written_with(bytes),
            None => HostBytes::copy_of(bytes),
        }
    }

    /// Elements that `write` writes, in memory as for [`host_copy_of`](Self::host_copy_of), without a copy. The memory
    /// is zeroed before. If there is no memory, `write` is not called, the bytes are not
    /// [backed](HostBytes::is_backed), and no Command takes them.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::command::Command;
    /// use millstream::memory::Layout;
    /// use millstream::{DType, Device};
    /// # fn main() -> millstream::Result<()> {
    /// let device = Device::cpu()?;
    /// let stream = device.stream()?;
    /// let layout = Layout::contiguous(DType::F32, &[1024])?;
    /// let buffer = stream.allocate(layout.dense_bytes())?;
    /// let ramp = stream.host_filled_by(1024, |values: &mut [f32]| {
    ///     values.iter_mut().enumerate().for_each(|(index, value)| *value = index as f32);
    /// });
    /// stream.record(Command::upload(buffer.operand(layout), ramp)?)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn host_filled_by<T: Element>(
        &self,
        elements: usize,
        write: impl FnOnce(&mut [T]),
    ) -> HostBytes {
        let bytes = elements.saturating_mul(size_of::<T>());
        let mut host = match reached(self, bytes) {
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

    /// A new buffer with a copy of these bytes, which are the elements of a layout without gaps. Where host and device share
    /// memory, they are written in place and nothing is recorded.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::dtype::as_bytes;
    /// use millstream::memory::Layout;
    /// use millstream::{DType, Device};
    ///
    /// # fn main() -> millstream::Result<()> {
    /// let stream = Device::cpu()?.stream()?;
    /// let layout = Layout::contiguous(DType::F32, &[2])?;
    /// let buffer = stream.allocate_with(&layout, as_bytes(&[1f32, 2.0]))?;
    /// let values: Vec<f32> = stream.download(buffer.operand(layout))?.read()?; // waits
    /// # let _ = values;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Blocks when
    ///
    /// As for [`record`](Self::record).
    ///
    /// # Errors
    ///
    /// As for [`record`](Self::record), no memory, or another number of bytes than the layout has.
    pub fn allocate_with(&self, layout: &Layout, bytes: &[u8]) -> Result<Buffer> {
        let buffer = self.allocate(layout.dense_bytes())?;
        let fits = bytes.len() == layout.dense_bytes() && layout.is_contiguous();
        if !(fits && buffer.write_first(&[bytes])) {
            self.upload_bytes(buffer.operand(*layout), bytes)?;
        }
        Ok(buffer)
    }

    /// As [`allocate_with`](Self::allocate_with), of several parts that follow each other: they are brought to the device together.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::dtype::as_bytes;
    /// use millstream::memory::Layout;
    /// use millstream::{DType, Device};
    ///
    /// # fn main() -> millstream::Result<()> {
    /// let stream = Device::cpu()?.stream()?;
    /// let layout = Layout::contiguous(DType::F32, &[3])?;
    /// let parts = [as_bytes(&[1f32, 2.0]), as_bytes(&[3f32])];
    /// let buffer = stream.allocate_with_parts(&layout, &parts)?;
    /// let values: Vec<f32> = stream.download(buffer.operand(layout))?.read()?; // waits
    /// # let _ = values;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Blocks when
    ///
    /// As for [`record`](Self::record).
    ///
    /// # Errors
    ///
    /// As for [`record`](Self::record), no memory, or another number of bytes than the layout has.
    pub fn allocate_with_parts(&self, layout: &Layout, parts: &[&[u8]]) -> Result<Buffer> {
        let bytes = layout.dense_bytes();
        let given = parts.iter().try_fold(0usize, |sum, part| sum.checked_add(part.len()));
        if given != Some(bytes) {
            let (op, spec) = ("allocate_with_parts", crate::TensorSpec::of(layout));
            let given = given.map_or("too many".into(), |given| given.to_string());
            let reason = format!("{given} bytes for {spec}, which takes {bytes}");
            return Err(Error::Invalid { op, reason });
        }
        let buffer = self.allocate(bytes)?;
        if !(layout.is_contiguous() && buffer.write_first(parts)) {
            let mut host = reached(self, bytes).unwrap_or_else(|| HostBytes::zeroed(bytes));
            if host.is_backed() {
                let mut rest = host.elements_mut::<u8>();
                for part in parts {
                    let (now, later) = rest.split_at_mut(part.len());
                    now.copy_from_slice(part);
                    rest = later;
                }
            }
            self.record(Command::upload(buffer.operand(*layout), host)?)?;
        }
        Ok(buffer)
    }

    /// A buffer over bytes of the host, which the device reads where they lie: for weights in a mapped file. Gives the buffer, which is
    /// [settled](Buffer::settle), and how many bytes behind its first one the range begins. The owner is kept as long as the device may
    /// use them. `None` if the device cannot do that, or the range is empty or too large; then they have to be copied.
    ///
    /// Nobody may change the bytes while the buffer lives.
    ///
    /// # Errors
    ///
    /// A range that is not inside of the owner's bytes, or a device that is gone.
    pub fn wrap(&self, owner: HostOwner, range: Range<usize>) -> Result<Option<(Buffer, usize)>> {
        let inner = self.inner();
        inner.device_inner().check()?;
        let Some(bytes) = (*owner).as_ref().get(range.clone()) else {
            let given = (*owner).as_ref().len();
            let reason = format!("bytes {range:?} of {given}");
            return Err(Error::Invalid { op: "wrap", reason });
        };
        if bytes.is_empty() || plan::is_traced() {
            return Ok(None);
        }
        let (first, count) = (NonNull::from(bytes).cast::<u8>(), bytes.len());
        // SAFETY: bytes of the owner, borrowed as shared from what is kept as long as the memory: nobody writes them.
        let wrapped = unsafe { inner.device_inner().backend().wrap(first, count, owner) }?;
        Ok(wrapped.map(|(segment, offset)| (memory::wrap(inner, segment), offset)))
    }

    /// Records a copy of an operand's elements, in row-major order, to the host.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::memory::Layout;
    /// use millstream::{DType, Device};
    ///
    /// # fn main() -> millstream::Result<()> {
    /// let stream = Device::cpu()?.stream()?;
    /// let layout = Layout::contiguous(DType::F32, &[4])?;
    /// let buffer = stream.allocate(layout.dense_bytes())?;
    ///
    /// stream.upload(buffer.operand(layout), &[1f32, 2.0, 3.0, 4.0])?;
    /// let values: Vec<f32> = stream.download(buffer.operand(layout))?.read()?; // waits
    /// # let _ = values;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Blocks when
    ///
    /// As for [`record`](Self::record).
    ///
    /// # Errors
    ///
    /// As for [`record`](Self::record).
    pub fn download(&self, src: Operand<&Buffer>) -> Result<Download> {
        download_aligned(self, src, src.layout.dtype().size())
    }

    /// Waits for the elements of an operand, and gives them as a download that has arrived. Where host and device share memory,
    /// they are read where they lie if they are few or [settled](Buffer::settle), and nothing is recorded.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::memory::Layout;
    /// use millstream::{DType, Device};
    ///
    /// # fn main() -> millstream::Result<()> {
    /// let stream = Device::cpu()?.stream()?;
    /// let layout = Layout::contiguous(DType::F32, &[4])?;
    /// let buffer = stream.allocate(layout.dense_bytes())?;
    ///
    /// stream.upload(buffer.operand(layout), &[1f32, 2.0, 3.0, 4.0])?;
    /// let values: Vec<f32> = stream.read(buffer.operand(layout))?.read()?;
    /// # let _ = values;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Blocks when
    ///
    /// The elements are not computed yet: nearly always.
    ///
    /// # Errors
    ///
    /// As for [`download`](Self::download) and [`Download::read`].
    pub fn read(&self, src: Operand<&Buffer>) -> Result<Download> {
        read_aligned(self, src, src.layout.dtype().size())
    }

    /// The bytes of the elements of `src`, as [`read`](Self::read) gives them.
    ///
    /// # Blocks when
    ///
    /// The elements are not computed yet: nearly always.
    ///
    /// # Errors
    ///
    /// As for [`download`](Self::download) and [`Download::bytes`].
    pub fn download_bytes(&self, src: Operand<&Buffer>) -> Result<Vec<u8>> {
        read_aligned(self, src, 1)?.bytes()
    }
}

/// A pending download: elements that are being copied to the host.
///
/// A GPU writes large downloads directly to pinned memory, which is returned to the stream when the download is read
/// or dropped. Dropping it early is safe: the memory stays in use until the device has passed the copy.
///
/// ```
/// # millstream_core::doctest!();
/// use millstream::memory::Layout;
/// use millstream::{DType, Device};
/// # fn main() -> millstream::Result<()> {
/// let device = Device::cpu()?;
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
    /// The timepoint at which they have arrived.
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
        // Host bytes are aligned for every element type, and whole elements.
        Ok(bytemuck::cast_slice(bytes))
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

    /// The fault of the download, if its bytes were not written.
    pub(super) fn written(&self) -> Result<()> {
        self.bytes.fault().map_or(Ok(()), |fault| Err(fault.report()))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
