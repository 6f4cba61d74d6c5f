//! Transfers between host and device, and the device's clock.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};
use std::{alloc, fmt};

use super::check::Check;
use super::{BufferLike, Command, InPlace, Op, Operand};
use crate::{DType, Element, Fault, Result, from_bytes};

/// Every address of host bytes is a multiple of this, whatever the element type.
const ALIGNMENT: usize = 8;

/// Bytes on the host that an upload reads or a download writes. Clones name the same bytes.
///
/// Who may touch them is settled by sequence: for an upload nobody writes after creation; for a
/// download only the device writes, before its command completes, and only the owner of the pending
/// download reads, after that. Both sides go through `unsafe` accessors that state this.
///
/// They lie on the heap, or in a piece that a device has lent because it reaches it by itself (see
/// [`HostPool`](crate::HostPool)). The last clone gives the memory back, on whichever thread that is.
#[derive(Clone)]
pub struct HostBytes(Arc<HostMemory>);

/// What memory that is not from the heap belongs to, and what keeps it.
pub(crate) trait Lender: Any + Send + Sync {
    /// Nobody uses the memory any more.
    fn give_back(&self);
}

struct HostMemory {
    start: NonNull<u8>,
    /// What it was allocated with; a vector of elements with this alignment can take it over.
    layout: alloc::Layout,
    /// None for memory from the heap.
    lender: Option<Arc<dyn Lender>>,
    /// Why what should have been written is not there.
    fault: OnceLock<Fault>,
}

// SAFETY: the bytes are only reached through the unsafe accessors of `HostBytes`, whose callers
// guarantee that no write overlaps with another access.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    fn allocate(bytes: usize, align: usize) -> Self {
        let layout = alloc::Layout::from_size_align(bytes, align);
        let layout = layout.expect("operands are smaller than the address space");
        if bytes == 0 {
            return Self {
                start: NonNull::<u64>::dangling().cast(),
                layout,
                lender: None,
                fault: OnceLock::new(),
            };
        }
        // SAFETY: the size is not zero.
        let start = unsafe { alloc::alloc(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| alloc::handle_alloc_error(layout));
        Self { start, layout, lender: None, fault: OnceLock::new() }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if let Some(lender) = &self.lender {
            lender.give_back();
        } else if self.layout.size() > 0 {
            // SAFETY: allocated with this layout, and nobody else has it.
            unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) };
        }
    }
}

impl HostBytes {
    /// Zeroed bytes.
    pub fn zeroed(bytes: usize) -> Self {
        let host = Self::unwritten(bytes, ALIGNMENT);
        // SAFETY: nobody else has this value yet.
        unsafe { host.as_mut_ptr().write_bytes(0, bytes) };
        host
    }

    /// A copy of some bytes.
    pub fn copy_of(bytes: &[u8]) -> Self {
        Self::unwritten(bytes.len(), ALIGNMENT).written_with(bytes)
    }

    /// The same, with a copy of as many bytes. Only for what was just made.
    pub(crate) fn written_with(self, bytes: &[u8]) -> Self {
        assert!(self.len() == bytes.len() && Arc::strong_count(&self.0) == 1);
        // SAFETY: as large as that, and nobody else has this value yet.
        unsafe { self.as_mut_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        self
    }

    /// The elements, for writing. Only for what was just made and is initialised.
    pub(crate) fn elements_mut<T: Element>(&mut self) -> &mut [T] {
        let count = self.len() / size_of::<T>();
        assert!(Arc::get_mut(&mut self.0).is_some(), "nobody else has them");
        // SAFETY: that many elements fit, aligned, and any bit pattern is one. Nobody else has them, and
        // nobody gets them while `self` is borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr().cast(), count) }
    }

    /// Bytes of somebody else's.
    ///
    /// # Safety
    ///
    /// As long as `lender` lives there are so many bytes at `start`, aligned for every element type, and
    /// nobody else touches them before it is told that they are given back.
    pub(crate) unsafe fn lent(start: NonNull<u8>, bytes: usize, lender: Arc<dyn Lender>) -> Self {
        let layout = alloc::Layout::from_size_align(bytes, ALIGNMENT);
        let layout = layout.expect("pieces are smaller than the address space");
        HostBytes(Arc::new(HostMemory {
            start,
            layout,
            lender: Some(lender),
            fault: OnceLock::new(),
        }))
    }

    /// What lent them, if it is that.
    pub(crate) fn lender<L: Lender>(&self) -> Option<&L> {
        let lender: &dyn Any = &**self.0.lender.as_ref()?;
        lender.downcast_ref()
    }

    /// What keeps memory that a device has lent where it is, without keeping it from being lent again; for
    /// a backend that has written its address down. `None` for memory from the heap.
    pub fn keep_address(&self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(Arc::clone(self.0.lender.as_ref()?)))
    }

    /// Bytes that a download will write, allocated as a vector of elements of this alignment would be
    /// wherever such memory is aligned for every element type, as it is with the usual allocators.
    pub(crate) fn unwritten(bytes: usize, align: usize) -> Self {
        let mut memory = HostMemory::allocate(bytes, align);
        if !memory.start.as_ptr().addr().is_multiple_of(ALIGNMENT) {
            memory = HostMemory::allocate(bytes, ALIGNMENT);
        }
        HostBytes(Arc::new(memory))
    }

    /// What should have been written here is not there.
    pub(crate) fn fail(&self, fault: &Fault) {
        let _ = self.0.fault.set(fault.clone());
    }

    /// Why what should have been written is not there, if so. To be asked when the device is through.
    pub(crate) fn fault(&self) -> Option<&Fault> {
        self.0.fault.get()
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.0.layout.size()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first byte, aligned for every element type, for reading.
    pub fn as_ptr(&self) -> *const u8 {
        self.as_mut_ptr()
    }

    /// The first byte, aligned for every element type, for writing by a device.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.0.start.as_ptr()
    }

    /// The bytes.
    ///
    /// # Safety
    ///
    /// No command that writes them is unfinished, and none is started while the slice lives. The
    /// target of a download has been written by it.
    pub unsafe fn as_slice(&self) -> &[u8] {
        // SAFETY: `len` bytes were allocated, and written as the caller says; it excludes writers.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len()) }
    }

    /// The elements as a vector: the same memory if nobody else has it and it was allocated like one,
    /// else a copy.
    ///
    /// # Safety
    ///
    /// As for [`as_slice`](Self::as_slice).
    pub(crate) unsafe fn into_vec<T: Element>(self) -> Vec<T> {
        let bytes = self.len();
        let like_a_vector = self.0.lender.is_none()
            && self.0.layout.align() == align_of::<T>()
            && bytes > 0
            && bytes.is_multiple_of(size_of::<T>());
        if !like_a_vector {
            // SAFETY: as the caller says.
            return from_bytes(unsafe { self.as_slice() });
        }
        match Arc::try_unwrap(self.0) {
            Ok(memory) => {
                let (memory, count) = (ManuallyDrop::new(memory), bytes / size_of::<T>());
                // SAFETY: allocated by the global allocator with the size and alignment of `count`
                // elements; every byte is written, and any bit pattern is a valid `Element`. It is
                // not freed here.
                unsafe { Vec::from_raw_parts(memory.start.as_ptr().cast(), count, count) }
            }
            Err(shared) => {
                let shared = HostBytes(shared);
                // SAFETY: as the caller says.
                from_bytes(unsafe { shared.as_slice() })
            }
        }
    }
}

impl fmt::Debug for HostBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostBytes({})", self.len())
    }
}

impl PartialEq for HostBytes {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<B: BufferLike> Command<B> {
    /// Copies dense row-major bytes of the host to `dst`.
    ///
    /// # Errors
    ///
    /// A number of bytes other than the elements of `dst` take, or an operand that does not fit its
    /// buffer.
    pub fn upload(dst: Operand<B>, source: HostBytes) -> Result<Self> {
        Check("upload").that(source.len() == dst.layout.dense_bytes(), || {
            format!(
                "{} bytes given, {:?} takes {}",
                source.len(),
                dst.layout,
                dst.layout.dense_bytes()
            )
        })?;
        Self::assemble(Op::Upload { source }, [dst], [], InPlace::No)
    }

    /// Copies the elements of `src` to dense row-major bytes of the host.
    ///
    /// # Errors
    ///
    /// A number of bytes other than the elements of `src` take, or an operand that does not fit its
    /// buffer.
    pub fn download(target: HostBytes, src: Operand<B>) -> Result<Self> {
        Check("download").that(target.len() == src.layout.dense_bytes(), || {
            format!(
                "{} bytes of room, {:?} takes {}",
                target.len(),
                src.layout,
                src.layout.dense_bytes()
            )
        })?;
        Self::assemble(Op::Download { target }, [], [src], InPlace::No)
    }

    /// Writes the device's clock, in nanoseconds, to one `i64`.
    ///
    /// # Errors
    ///
    /// A `dst` that is not one `i64`.
    pub fn timestamp(dst: Operand<B>) -> Result<Self> {
        let check = Check("timestamp");
        check.dtype(&dst.layout, DType::I64)?;
        check.that(dst.layout.elements() == 1, || {
            format!("needs one element, got {:?}", dst.layout.shape())
        })?;
        Self::assemble(Op::Timestamp, [dst], [], InPlace::No)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(values: &[f32], align: usize) -> HostBytes {
        let host = HostBytes::unwritten(size_of_val(values), align);
        assert!(host.as_ptr().addr().is_multiple_of(ALIGNMENT));
        // SAFETY: as many bytes as the values have, and nobody else has them.
        unsafe { host.as_mut_ptr().cast::<f32>().copy_from_nonoverlapping(values.as_ptr(), 3) };
        host
    }

    #[test]
    fn a_vector_takes_the_memory_over_when_nobody_else_has_it() {
        let host = written(&[1.0, 2.0, 3.0], align_of::<f32>());
        let start = host.as_ptr();
        // SAFETY: written, and no command is under way.
        let vector = unsafe { host.into_vec::<f32>() };
        assert_eq!(vector, [1.0, 2.0, 3.0]);
        assert_eq!(vector.as_ptr().cast(), start);
    }

    #[test]
    fn shared_memory_and_other_element_types_are_copied() {
        let host = written(&[1.0, 2.0, 3.0], align_of::<f32>());
        // SAFETY: written, and no command is under way.
        assert_eq!(unsafe { host.clone().into_vec::<f32>() }, [1.0, 2.0, 3.0]);
        // SAFETY: as above.
        assert_eq!(unsafe { host.into_vec::<u8>() }.len(), 12);
        // SAFETY: nothing to write.
        assert!(unsafe { HostBytes::unwritten(0, 4).into_vec::<f32>() }.is_empty());
    }
}
