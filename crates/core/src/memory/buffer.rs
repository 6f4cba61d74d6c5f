//! Buffers: the handles that keep a block of device memory.

use std::fmt;
use std::ptr::NonNull;

use super::block::{Block, Settling};
use crate::command::{BufferLike, RawBuffer};
use crate::{Device, Layout, Operand, Result};

/// A piece of device memory. Clones name the same memory.
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
/// stream.upload(buffer.operand(layout), &[1f32; 4])?;
/// let same = buffer.clone(); // another name for the same memory
/// assert_eq!(same.bytes(), buffer.bytes());
/// # Ok(())
/// # }
/// ```
///
/// # Thread safety
///
/// Any thread may use, clone or drop any buffer. Commands of different streams that use one buffer are ordered
/// automatically: a read waits for the last write, a write waits for all earlier uses. Memory is reused only when
/// every stream has passed its last use of it.
pub struct Buffer(NonNull<Block>);

// SAFETY: a block's fields are constants, atomics or behind a lock, and its memory is only reached
// through Commands, which streams put in order.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// # Safety
    ///
    /// The block was prepared with one holder, which the new handle becomes.
    pub(super) unsafe fn from_prepared(block: NonNull<Block>) -> Self {
        Buffer(block)
    }

    pub(crate) fn block(&self) -> &Block {
        // SAFETY: the handle counts as a holder, and a block is freed only without holders.
        unsafe { self.0.as_ref() }
    }

    /// The size that was asked for.
    pub fn bytes(&self) -> usize {
        self.block().bytes()
    }

    /// The device it is on.
    pub fn device(&self) -> Device {
        self.block().home.device()
    }

    /// The number of the stream that it was allocated on.
    pub fn home(&self) -> u32 {
        self.block().home.id()
    }

    /// This buffer with a layout, as an operand of a Command.
    pub fn operand(&self, layout: Layout) -> Operand<&Buffer> {
        Operand::new(self, layout)
    }

    /// Makes the contents final, for weights: waits until they are complete. After that, reading them is not tracked
    /// and costs nothing on any stream, and writing them is an error.
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
    /// stream.upload(buffer.operand(layout), &[1f32; 4])?;
    /// buffer.settle()?; // complete, and for reading only: threads share it without ordering
    /// assert!(buffer.is_settled());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Blocks when
    ///
    /// The contents are not complete.
    ///
    /// # Errors
    ///
    /// The fault of a command that should have written a part of the buffer, a timeout, or a device that is
    /// gone.
    #[doc(alias = "eval")]
    pub fn settle(&self) -> Result<()> {
        let block = self.block();
        block.home.device_inner().check()?;
        while !block.is_settled() {
            match block.try_settle()? {
                Settling::Done => {
                    block.home.device_inner().backend().settled(block.address);
                    break;
                }
                Settling::WaitFor(point) => point.wait_passed()?,
                Settling::Clear => crate::stream::clear_rest(block.home, self)?,
            }
        }
        Ok(())
    }

    /// Whether [`settle`](Self::settle) was called.
    pub fn is_settled(&self) -> bool {
        self.block().is_settled()
    }

    pub(crate) fn raw(&self) -> RawBuffer {
        RawBuffer { address: self.block().address, bytes: self.bytes() }
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        self.block().add_holder();
        Buffer(self.0)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.block().remove_holder() {
            super::return_block(self.0);
        }
    }
}

impl BufferLike for &Buffer {
    fn bytes(&self) -> usize {
        Buffer::bytes(self)
    }

    fn identity(&self) -> usize {
        self.0.as_ptr() as usize
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = self.device();
        write!(f, "Buffer({} bytes, {}, stream {})", self.bytes(), device.label(), self.home())
    }
}
