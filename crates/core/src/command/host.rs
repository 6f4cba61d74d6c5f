//! Transfers between host and device, and the device's clock.

use std::cell::UnsafeCell;
use std::fmt;
use std::sync::Arc;

use super::check::Check;
use super::{BufferLike, Command, InPlace, Op, Operand};
use crate::{DType, Result};

/// Bytes on the host that an upload reads or a download writes. Clones name the same bytes.
///
/// Who may touch them is settled by sequence: for an upload nobody writes after creation; for a
/// download only the device writes, before its command completes, and only the owner of the pending
/// download reads, after that. Both sides go through `unsafe` accessors that state this.
#[derive(Clone)]
pub struct HostBytes(Arc<HostMemory>);

struct HostMemory {
    // u64 elements so that any dtype can be read in place.
    words: UnsafeCell<Box<[u64]>>,
    bytes: usize,
}

// SAFETY: the bytes are only reached through the unsafe accessors of `HostBytes`, whose callers
// guarantee that no write overlaps with another access.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostBytes {
    /// Zeroed bytes.
    pub fn zeroed(bytes: usize) -> Self {
        let words = vec![0u64; bytes.div_ceil(8)].into_boxed_slice();
        HostBytes(Arc::new(HostMemory { words: UnsafeCell::new(words), bytes }))
    }

    /// A copy of some bytes.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let host = Self::zeroed(bytes.len());
        // SAFETY: nobody else has this value yet.
        unsafe { host.as_mut_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        host
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.0.bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.bytes == 0
    }

    /// The first byte, aligned for every element type, for reading.
    pub fn as_ptr(&self) -> *const u8 {
        self.as_mut_ptr()
    }

    /// The first byte, aligned for every element type, for writing by a device.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        // SAFETY: only the pointer to the boxed slice is read, never changed after creation.
        unsafe { (*self.0.words.get()).as_mut_ptr().cast() }
    }

    /// The bytes.
    ///
    /// # Safety
    ///
    /// No command that writes them is unfinished, and none is started while the slice lives.
    pub unsafe fn as_slice(&self) -> &[u8] {
        // SAFETY: `len` bytes were allocated and initialised; the caller excludes writers.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len()) }
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
