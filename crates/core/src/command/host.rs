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

/// No Command that uses the bytes was recorded yet.
const UNCLAIMED: u8 = 0;

struct HostMemory {
    start: NonNull<u8>,
    bytes: usize,
    home: Home,
    /// [`UNCLAIMED`], or a [`HostRole`].
    role: AtomicU8,
    /// Why the bytes were not written, if a download failed.
    fault: OnceLock<Fault>,
}

/// Where the memory is from.
enum Home {
    /// The heap, with this alignment. A vector of elements with this alignment can take the memory over.
    Heap {
        align: usize,
    },
    Pooled(Arc<dyn PoolEntry>),
    /// There was no memory.
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

    /// Memory from the heap, by this function of the allocator. Not backed if the heap has none.
    fn allocate(bytes: usize, align: usize, by: unsafe fn(alloc::Layout) -> *mut u8) -> Self {
        let Ok(layout) = alloc::Layout::from_size_align(bytes, align) else {
            return Self::nowhere(bytes);
        };
        if bytes == 0 {
            return Self::new(NonNull::<u64>::dangling().cast(), 0, Home::Heap { align });
        }
        // SAFETY: functions of the allocator ask for a size other than zero, and it is.
        match NonNull::new(unsafe { by(layout) }) {
            Some(start) => Self::new(start, bytes, Home::Heap { align }),
            None => Self::nowhere(bytes),
        }
    }

    /// As [`allocate`](Self::allocate), with an address that is aligned for every element type.
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
                // SAFETY: allocated with this size and alignment, which made a valid layout then. Nobody else has the
                // memory.
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

    /// The same bytes, with as many bytes copied into them. Only for a value that was just made.
    pub(crate) fn written_with(self, bytes: &[u8]) -> Self {
        assert!(self.len() == bytes.len() && Arc::strong_count(&self.0) == 1);
        if self.is_backed() {
            // SAFETY: the memory has at least this size, and nobody else has this value yet.
            unsafe { self.as_mut_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
        self
    }

    /// The elements, for writing; none if there is no memory. Only for a value that was just made and is initialized.
    pub(crate) fn elements_mut<T: Element>(&mut self) -> &mut [T] {
        let bytes = self.readable() / size_of::<T>() * size_of::<T>();
        assert!(Arc::get_mut(&mut self.0).is_some(), "nobody else has them");
        // SAFETY: the memory has this size. Nobody else has it, and nobody gets it while `self` is borrowed.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr(), bytes) };
        // Host bytes are aligned for every element type.
        bytemuck::cast_slice_mut(bytes)
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

    /// Bytes that a download will write. They are allocated like a vector of elements with this alignment, if the
    /// allocator gives such vectors an address that every element type can have. The usual allocators do.
    pub(crate) fn unwritten(bytes: usize, align: usize) -> Self {
        HostBytes(Arc::new(HostMemory::allocate_aligned(bytes, align, alloc::alloc)))
    }

    /// How many bytes there are, or were asked for.
    pub fn len(&self) -> usize {
        self.0.bytes
    }

    /// A number that clones share. No other bytes that live at the same time have it.
    pub(super) fn identity(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is memory behind them. If not, nothing was written and nothing can be read, and a Command with
    /// them is refused with [`Error::OutOfHostMemory`].
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

    /// The first byte, for reading; aligned for every element type. The address must not be used if the bytes are not
    /// backed.
    pub fn as_ptr(&self) -> *const u8 {
        self.as_mut_ptr()
    }

    /// The first byte, for writing by a device; aligned for every element type. The address must not be used if the
    /// bytes are not backed.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.0.start.as_ptr()
    }

    /// Claims the bytes for a role. Must be called for every Command that is recorded.
    ///
    /// # Errors
    ///
    /// Bytes that a download was recorded for, or a download to bytes that any Command was recorded with.
    pub(crate) fn claim(&self, role: HostRole) -> Result<()> {
        // The order is relaxed: the role is all that this hands on, and the bytes were made before the Command was.
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

    /// Notes that the bytes were not written, and why. A queue calls this before the Command counts as passed. The
    /// first fault stays.
    pub(crate) fn fail(&self, fault: &Fault) {
        let _ = self.0.fault.set(fault.clone());
    }

    /// Why the bytes were not written, if they were not. To be asked after the device has passed the Command.
    pub(crate) fn fault(&self) -> Option<&Fault> {
        self.0.fault.get()
    }

    /// The bytes; empty if there is no memory.
    ///
    /// # Safety
    ///
    /// No unfinished Command writes the bytes, and none is started while the slice lives. If they are the target of a
    /// download, it has written them.
    pub unsafe fn as_slice(&self) -> &[u8] {
        // SAFETY: this many bytes were allocated. The caller guarantees that they are written and that nobody writes
        // now.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.readable()) }
    }

    /// The elements as a vector. It takes the memory over if nobody else has it and it was allocated like a vector;
    /// else the elements are copied.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfHostMemory`] if there is no memory for the copy.
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
            // SAFETY: the caller guarantees what `as_slice` asks for.
            return try_from_bytes(unsafe { self.as_slice() });
        }
        match Arc::try_unwrap(self.0) {
            Ok(mut memory) => {
                // The other field is dropped here; the memory is not.
                drop(memory.fault.take());
                let (memory, count) = (ManuallyDrop::new(memory), bytes / size_of::<T>());
                // SAFETY: the global allocator gave this memory with the size and alignment of `count` elements.
                // Every byte is written, and any bit pattern is a valid `Element`. The memory is not freed here.
                Ok(unsafe { Vec::from_raw_parts(memory.start.as_ptr().cast(), count, count) })
            }
            Err(shared) => {
                let shared = HostBytes(shared);
                // SAFETY: the caller guarantees what `as_slice` asks for.
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
mod tests;
