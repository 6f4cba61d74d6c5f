//! Bytes on the host that transfers read and write.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};
use std::{alloc, fmt};

use crate::dtype::try_from_bytes;
use crate::sync::schedule::{AtomicU8, Ordering};
use crate::{Element, Error, Fault, Result};

/// Every address of host bytes is a multiple of this, whatever the element type.
const ALIGNMENT: usize = 8;

/// Bytes on the host that an upload reads or a download writes. Clones name the same bytes.
///
/// Recording a Command decides how its host bytes are used. Either any number of uploads read them, and
/// nobody writes them after creation; or one download writes them, once. A Command that breaks this rule is
/// refused. The device writes a download before its Command completes, and the owner of the download reads it
/// after that. Both sides use `unsafe` accessors that state this.
///
/// The bytes lie on the heap, or in memory that the device reaches by itself (see
/// [`HostPool`](crate::HostPool)). The last clone frees the memory, on any thread.
///
/// If there was no memory, the bytes are not [backed](Self::is_backed): they only have a length, and no
/// Command takes them.
#[derive(Clone)]
pub struct HostBytes(Arc<HostMemory>);

/// The owner of memory that is not from the heap.
pub(crate) trait PoolEntry: Any + Send + Sync {
    /// The memory is no longer used.
    fn release(&self);
}

/// What recorded Commands do with host bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u8)]
pub(crate) enum HostRole {
    /// Uploads read them.
    Source = 1,
    /// A download writes them.
    Target = 2,
}

/// No Command that uses the bytes was recorded.
const UNCLAIMED: u8 = 0;

struct HostMemory {
    start: NonNull<u8>,
    bytes: usize,
    home: Home,
    /// [`UNCLAIMED`], or a [`HostRole`].
    role: AtomicU8,
    /// Why what should have been written was not.
    fault: OnceLock<Fault>,
}

/// Where the memory is from.
enum Home {
    /// The heap, with this alignment; a vector of elements that have it can take the memory over.
    Heap {
        align: usize,
    },
    Pooled(Arc<dyn PoolEntry>),
    /// There is none.
    Nowhere,
}

// SAFETY: the bytes are only reached through the unsafe accessors of `HostBytes`, whose callers
// guarantee that no write overlaps with another access.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    fn new(start: NonNull<u8>, bytes: usize, home: Home) -> Self {
        let role = AtomicU8::new(UNCLAIMED);
        Self { start, bytes, home, role, fault: OnceLock::new() }
    }

    fn nowhere(bytes: usize) -> Self {
        Self::new(NonNull::<u64>::dangling().cast(), bytes, Home::Nowhere)
    }

    /// From the heap, by this function of the allocator; without memory if the heap has none.
    fn allocate(bytes: usize, align: usize, by: unsafe fn(alloc::Layout) -> *mut u8) -> Self {
        let Ok(layout) = alloc::Layout::from_size_align(bytes, align) else {
            return Self::nowhere(bytes);
        };
        if bytes == 0 {
            return Self::new(NonNull::<u64>::dangling().cast(), 0, Home::Heap { align });
        }
        // SAFETY: the size is not zero, which is all that functions of the allocator ask for.
        match NonNull::new(unsafe { by(layout) }) {
            Some(start) => Self::new(start, bytes, Home::Heap { align }),
            None => Self::nowhere(bytes),
        }
    }

    /// As [`allocate`](Self::allocate), with an address that every element type can have.
    fn allocate_aligned(
        bytes: usize,
        align: usize,
        by: unsafe fn(alloc::Layout) -> *mut u8,
    ) -> Self {
        let memory = Self::allocate(bytes, align, by);
        if memory.start.as_ptr().addr().is_multiple_of(ALIGNMENT) {
            return memory;
        }
        drop(memory);
        Self::allocate(bytes, ALIGNMENT, by)
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        match &self.home {
            Home::Pooled(entry) => entry.release(),
            Home::Heap { align } if self.bytes > 0 => {
                // SAFETY: allocated with this size and alignment, which made a layout then, and nobody
                // else has it.
                unsafe {
                    let layout = alloc::Layout::from_size_align_unchecked(self.bytes, *align);
                    alloc::dealloc(self.start.as_ptr(), layout);
                }
            }
            Home::Heap { .. } | Home::Nowhere => {}
        }
    }
}

impl HostBytes {
    /// Zeroed bytes. They are not [backed](Self::is_backed) if there is no memory for them.
    pub fn zeroed(bytes: usize) -> Self {
        let zeroed = HostMemory::allocate_aligned(bytes, ALIGNMENT, alloc::alloc_zeroed);
        HostBytes(Arc::new(zeroed))
    }

    /// A copy of some bytes. They are not [backed](Self::is_backed) if there is no memory for them.
    pub fn copy_of(bytes: &[u8]) -> Self {
        Self::unwritten(bytes.len(), ALIGNMENT).written_with(bytes)
    }

    /// The same, with a copy of as many bytes. Only for what was just made.
    pub(crate) fn written_with(self, bytes: &[u8]) -> Self {
        assert!(self.len() == bytes.len() && Arc::strong_count(&self.0) == 1);
        if self.is_backed() {
            // SAFETY: as large as that, and nobody else has this value yet.
            unsafe { self.as_mut_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
        self
    }

    /// The elements, for writing; none if there is no memory. Only for what was just made and is
    /// initialized.
    pub(crate) fn elements_mut<T: Element>(&mut self) -> &mut [T] {
        let count = self.readable() / size_of::<T>();
        assert!(Arc::get_mut(&mut self.0).is_some(), "nobody else has them");
        // SAFETY: that many elements fit, aligned, and any bit pattern is one. Nobody else has them, and
        // nobody gets them while `self` is borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr().cast(), count) }
    }

    /// Bytes of a pool.
    ///
    /// # Safety
    ///
    /// As long as `entry` lives, there are `bytes` bytes at `start`, aligned for every element type. Nobody
    /// else touches them until the entry is released.
    pub(crate) unsafe fn pooled(
        start: NonNull<u8>,
        bytes: usize,
        entry: Arc<dyn PoolEntry>,
    ) -> Self {
        HostBytes(Arc::new(HostMemory::new(start, bytes, Home::Pooled(entry))))
    }

    /// The pool entry that they lie in, if it has this type.
    pub(crate) fn pool_entry<E: PoolEntry>(&self) -> Option<&E> {
        let Home::Pooled(entry) = &self.0.home else { return None };
        let entry: &dyn Any = &**entry;
        entry.downcast_ref()
    }

    /// Keeps pooled memory alive at its address, for a backend that has captured the address. The pool may
    /// still hand the memory out again. `None` for memory from the heap.
    pub fn keep_address(&self) -> Option<Box<dyn Any + Send>> {
        let Home::Pooled(entry) = &self.0.home else { return None };
        Some(Box::new(Arc::clone(entry)))
    }

    /// Bytes that a download will write, allocated as a vector of elements of this alignment would be
    /// wherever such memory is aligned for every element type, as it is with the usual allocators.
    pub(crate) fn unwritten(bytes: usize, align: usize) -> Self {
        HostBytes(Arc::new(HostMemory::allocate_aligned(bytes, align, alloc::alloc)))
    }

    /// How many bytes there are, or were asked for.
    pub fn len(&self) -> usize {
        self.0.bytes
    }

    /// A number that clones share, and no other bytes that live at the same time.
    pub(super) fn identity(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is memory for them. Where there is none, nothing was written and nothing can be read:
    /// a Command with them is refused with [`Error::OutOfHostMemory`].
    pub fn is_backed(&self) -> bool {
        !matches!(self.0.home, Home::Nowhere)
    }

    /// # Errors
    ///
    /// [`Error::OutOfHostMemory`] if there is no memory.
    pub(crate) fn check_backed(&self) -> Result<()> {
        if self.is_backed() {
            return Ok(());
        }
        Err(Error::OutOfHostMemory { requested: self.len() })
    }

    /// How many bytes can be read.
    fn readable(&self) -> usize {
        if self.is_backed() { self.len() } else { 0 }
    }

    /// The first byte, aligned for every element type, for reading. There is nothing at this address if
    /// there is no memory.
    pub fn as_ptr(&self) -> *const u8 {
        self.as_mut_ptr()
    }

    /// The first byte, aligned for every element type, for writing by a device. There is nothing at this
    /// address if there is no memory.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.0.start.as_ptr()
    }

    /// Claims the bytes for a role. To be called for every Command that is recorded.
    ///
    /// # Errors
    ///
    /// Bytes that a download was recorded to, or a target that anything was recorded with.
    pub(crate) fn claim(&self, role: HostRole) -> Result<()> {
        // Nothing but this number is handed on: whoever made the bytes did so before there was a Command.
        let (claimed, order) = (role as u8, Ordering::Relaxed);
        match self.0.role.compare_exchange(UNCLAIMED, claimed, order, order) {
            Ok(_) => Ok(()),
            Err(found) if found == claimed && role == HostRole::Source => Ok(()),
            Err(found) => {
                let (op, wanted) = match role {
                    HostRole::Source => ("upload", "read"),
                    HostRole::Target => ("download", "written"),
                };
                let use_before =
                    if found == HostRole::Source as u8 { "an upload's" } else { "a download's" };
                let reason = format!(
                    "these bytes of the host are {use_before} already and cannot be {wanted} by this one"
                );
                Err(Error::Invalid { op, reason })
            }
        }
    }

    /// Says that what should have been written was not, and why. For a queue, before the command counts as
    /// passed. The first word stays.
    pub(crate) fn fail(&self, fault: &Fault) {
        let _ = self.0.fault.set(fault.clone());
    }

    /// Why what should have been written was not, if so. To be asked when the device is through.
    pub(crate) fn fault(&self) -> Option<&Fault> {
        self.0.fault.get()
    }

    /// The bytes; none if there is no memory.
    ///
    /// # Safety
    ///
    /// No command that writes them is unfinished, and none is started while the slice lives. The
    /// target of a download has been written by it.
    pub unsafe fn as_slice(&self) -> &[u8] {
        // SAFETY: so many bytes were allocated, and written as the caller says; it excludes writers.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.readable()) }
    }

    /// The elements as a vector: the same memory if nobody else has it and it was allocated like one,
    /// else a copy.
    ///
    /// # Errors
    ///
    /// No memory for a copy.
    ///
    /// # Safety
    ///
    /// As for [`as_slice`](Self::as_slice).
    pub(crate) unsafe fn into_vec<T: Element>(self) -> Result<Vec<T>> {
        let bytes = self.len();
        let like_a_vector = matches!(self.0.home, Home::Heap { align } if align == align_of::<T>())
            && bytes > 0
            && bytes.is_multiple_of(size_of::<T>());
        if !like_a_vector {
            // SAFETY: as the caller says.
            return try_from_bytes(unsafe { self.as_slice() });
        }
        match Arc::try_unwrap(self.0) {
            Ok(mut memory) => {
                // What else is there is dropped; the memory is not.
                drop(memory.fault.take());
                let (memory, count) = (ManuallyDrop::new(memory), bytes / size_of::<T>());
                // SAFETY: allocated by the global allocator with the size and alignment of `count`
                // elements; every byte is written, and any bit pattern is a valid `Element`. It is
                // not freed here.
                Ok(unsafe { Vec::from_raw_parts(memory.start.as_ptr().cast(), count, count) })
            }
            Err(shared) => {
                let shared = HostBytes(shared);
                // SAFETY: as the caller says.
                try_from_bytes(unsafe { shared.as_slice() })
            }
        }
    }
}

impl fmt::Debug for HostBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nowhere = if self.is_backed() { "" } else { ", no memory" };
        write!(f, "HostBytes({}{nowhere})", self.len())
    }
}

impl PartialEq for HostBytes {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
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
        let vector = unsafe { host.into_vec::<f32>() }.unwrap();
        assert_eq!(vector, [1.0, 2.0, 3.0]);
        assert_eq!(vector.as_ptr().cast(), start);
    }

    #[test]
    fn shared_memory_and_other_element_types_are_copied() {
        let host = written(&[1.0, 2.0, 3.0], align_of::<f32>());
        // SAFETY: written, and no command is under way.
        assert_eq!(unsafe { host.clone().into_vec::<f32>() }.unwrap(), [1.0, 2.0, 3.0]);
        // SAFETY: as above.
        assert_eq!(unsafe { host.into_vec::<u8>() }.unwrap().len(), 12);
        // SAFETY: nothing to write.
        assert!(unsafe { HostBytes::unwritten(0, 4).into_vec::<f32>() }.unwrap().is_empty());
    }

    #[test]
    fn bytes_that_no_memory_has_are_a_length_and_nothing_else() {
        for bytes in [usize::MAX, isize::MAX as usize + 1, isize::MAX as usize - 64, 1 << 55] {
            for mut host in [HostBytes::zeroed(bytes), HostBytes::unwritten(bytes, 4)] {
                assert_eq!((host.len(), host.is_backed(), host.is_empty()), (bytes, false, false));
                assert!(host.elements_mut::<f32>().is_empty());
                assert!(host.keep_address().is_none());
                let error = host.check_backed().unwrap_err();
                assert_eq!(error, Error::OutOfHostMemory { requested: bytes });
                assert!(error.is_retryable());
                // SAFETY: there is nothing to write.
                assert!(unsafe { host.as_slice() }.is_empty());
                // SAFETY: as above.
                assert!(unsafe { host.into_vec::<f32>() }.unwrap().is_empty());
            }
        }
        assert!(HostBytes::zeroed(0).is_backed() && HostBytes::zeroed(0).is_empty());
        let zeros = HostBytes::zeroed(9);
        // SAFETY: nothing writes them.
        assert_eq!(unsafe { zeros.as_slice() }, [0; 9]);
    }

    #[test]
    fn bytes_are_read_by_uploads_or_written_by_one_download() {
        let claims = |roles: &[HostRole]| {
            let host = HostBytes::zeroed(4);
            roles.iter().map(|&role| host.clone().claim(role).is_ok()).collect::<Vec<_>>()
        };
        use HostRole::{Source, Target};
        assert_eq!(claims(&[Source, Source, Target, Source]), [true, true, false, true]);
        assert_eq!(claims(&[Target, Target, Source]), [true, false, false]);
    }

    #[test]
    fn the_first_word_on_what_failed_stays() {
        let host = HostBytes::zeroed(4);
        assert!(host.fault().is_none());
        let error = |requested| Error::OutOfHostMemory { requested };
        host.fail(&Fault::new(error(1)));
        host.clone().fail(&Fault::new(error(2)));
        assert_eq!(host.fault().map(Fault::error), Some(&error(1)));
    }
}
