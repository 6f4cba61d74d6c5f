//! Operands: a buffer and where in it the elements lie.

use crate::Layout;
use crate::size::MAX_BYTES;

/// A name of a buffer with which a Command can be checked.
pub trait BufferLike {
    /// The size of the buffer.
    fn bytes(&self) -> usize;

    /// A number that is the same for two names exactly if they name the same memory.
    fn identity(&self) -> usize;
}

/// A buffer by device address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RawBuffer {
    /// The device address of the first byte.
    pub address: usize,
    /// The size.
    pub bytes: usize,
}

impl BufferLike for RawBuffer {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn identity(&self) -> usize {
        self.address
    }
}

/// How a Command uses an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only reads it.
    Read,
    /// Writes it, and may read it.
    Write,
}

impl Access {
    /// Whether this access leaves no unwritten byte readable. The memory has `bytes` bytes, of which the first
    /// `covered` were written. A read must lie inside those. A write must leave no gap before or between the elements
    /// that it writes.
    #[inline]
    pub(crate) fn is_covered(self, layout: &Layout, covered: usize, bytes: usize) -> bool {
        // The usual case first: all of the memory was written.
        covered >= bytes
            || layout.extent_bytes() <= covered
            || (self == Access::Write && layout.start_bytes() <= covered && layout.is_dense())
    }
}

/// A buffer and the layout of the elements in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operand<B> {
    /// The buffer.
    pub buffer: B,
    /// Where in the buffer the elements lie.
    pub layout: Layout,
}

impl<B> Operand<B> {
    /// Pairs a buffer with a layout. Whether the two fit is checked when a Command is built.
    pub fn new(buffer: B, layout: Layout) -> Self {
        Self { buffer, layout }
    }
}

impl<B: BufferLike> Operand<B> {
    pub(super) fn check_bounds(&self) -> Result<(), String> {
        let extent = self.layout.extent_bytes();
        if extent > MAX_BYTES {
            return Err(format!("{:?} reaches beyond what memory can have", self.layout));
        }
        if extent > self.buffer.bytes() {
            return Err(format!(
                "{:?} reaches byte {extent} of a buffer of {} bytes",
                self.layout,
                self.buffer.bytes()
            ));
        }
        Ok(())
    }

    /// Whether the two may touch the same byte. Ranges are compared, not single elements.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.buffer.identity() == other.buffer.identity()
            && !self.layout.is_empty()
            && !other.layout.is_empty()
            && self.layout.start_bytes() < other.layout.extent_bytes()
            && other.layout.start_bytes() < self.layout.extent_bytes()
    }
}
