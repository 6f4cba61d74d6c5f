//! Blocks of device memory and the handles that keep them alive.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use smallvec::SmallVec;

use crate::command::{Access, BufferLike, RawBuffer};
use crate::stream::{StreamInner, Timepoint};
use crate::sync::Linked;
use crate::sync::shim::{AtomicPtr, AtomicU64};
use crate::{Device, Layout, Operand, Result};

/// A block of device memory. It belongs to its home stream, which reuses it when nobody holds it.
///
/// The first cache line is only read on the hot path; what changes with use lies on the second, so
/// that streams which read the same weights do not disturb each other.
#[repr(C, align(64))]
pub(crate) struct Block {
    pub(super) address: usize,
    pub(super) class: u32,
    pub(super) slab: u32,
    pub(crate) home: &'static StreamInner,
    /// The size asked for; at most the size of the class.
    pub(super) bytes: AtomicUsize,
    /// The number of the thread that it was last allocated for.
    thread: AtomicUsize,
    settled: AtomicBool,
    /// Whether `uses` has entries.
    foreign: AtomicBool,
    changing: Changing,
}

#[repr(align(64))]
struct Changing {
    holders: AtomicUsize,
    /// The home stream's sequence number of the last write there, or of the allocation.
    written: AtomicU64,
    link: AtomicPtr<Block>,
    /// Uses by streams other than home, at most one entry per stream.
    uses: Mutex<SmallVec<[ForeignUse; 2]>>,
}

#[derive(Clone, Copy)]
struct ForeignUse {
    stream: &'static StreamInner,
    read: u64,
    written: u64,
}

// SAFETY: `link` is used by the return stack only.
unsafe impl Linked for Block {
    fn link(&self) -> &AtomicPtr<Block> {
        &self.changing.link
    }
}

impl Block {
    pub(super) fn new(
        address: usize,
        class: usize,
        slab: usize,
        home: &'static StreamInner,
    ) -> NonNull<Self> {
        let block = Block {
            address,
            class: class as u32,
            slab: slab as u32,
            home,
            bytes: AtomicUsize::new(0),
            thread: AtomicUsize::new(0),
            settled: AtomicBool::new(false),
            foreign: AtomicBool::new(false),
            changing: Changing {
                holders: AtomicUsize::new(0),
                written: AtomicU64::new(0),
                link: AtomicPtr::new(std::ptr::null_mut()),
                uses: Mutex::default(),
            },
        };
        NonNull::from(Box::leak(Box::new(block)))
    }

    /// Makes the block ready for a new holder. Commands recorded so far may still use it; they all lie
    /// on the home stream, so another stream that comes to it first waits for them.
    pub(super) fn prepare(&self, bytes: usize, recorded: u64, thread: usize) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.thread.store(thread, Ordering::Relaxed);
        self.settled.store(false, Ordering::Relaxed);
        self.changing.written.store(recorded, Ordering::Relaxed);
        self.changing.holders.store(1, Ordering::Relaxed);
    }

    fn uses(&self) -> std::sync::MutexGuard<'_, SmallVec<[ForeignUse; 2]>> {
        self.changing.uses.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The number of the thread that it was last allocated for.
    pub(super) fn thread(&self) -> usize {
        self.thread.load(Ordering::Relaxed)
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Relaxed)
    }

    pub(super) fn settle(&self) {
        self.settled.store(true, Ordering::Release);
    }

    /// The last write on the home stream.
    pub(crate) fn written(&self) -> u64 {
        self.changing.written.load(Ordering::Acquire)
    }

    /// Calls `need` with every point that an access by `user` depends on: points of other streams to
    /// wait for, and points of its own only where something failed there that it may be about to read.
    pub(crate) fn dependencies(
        &self,
        user: &'static StreamInner,
        access: Access,
        mut need: impl FnMut(Timepoint),
    ) {
        let own_order_suffices = user.progress().epoch() == 0;
        let skip = |stream: &'static StreamInner| own_order_suffices && std::ptr::eq(stream, user);
        if !skip(self.home) {
            // Reads at home leave no trace, so a write elsewhere waits for all that home has recorded.
            let sequence = match access {
                Access::Read => self.written(),
                Access::Write => self.home.recorded(),
            };
            need(Timepoint::new(self.home, sequence));
        }
        if self.foreign.load(Ordering::Acquire) {
            for other in self.uses().iter().filter(|other| !skip(other.stream)) {
                let sequence = match access {
                    Access::Read => other.written,
                    Access::Write => other.read.max(other.written),
                };
                need(Timepoint::new(other.stream, sequence));
            }
        }
    }

    /// Remembers a use. Called with the user's recorder locked, so that sequence numbers are in order.
    pub(crate) fn note_use(&self, user: &'static StreamInner, access: Access, sequence: u64) {
        if std::ptr::eq(self.home, user) {
            if access == Access::Write {
                self.changing.written.store(sequence, Ordering::Release);
            }
            return;
        }
        let mut uses = self.uses();
        let known = uses.iter().position(|other| std::ptr::eq(other.stream, user));
        let index = known.unwrap_or_else(|| {
            uses.push(ForeignUse { stream: user, read: 0, written: 0 });
            uses.len() - 1
        });
        match access {
            Access::Read => uses[index].read = sequence,
            Access::Write => uses[index].written = sequence,
        }
        self.foreign.store(true, Ordering::Release);
    }

    /// Forgets the uses of other streams if the device is through with all of them.
    pub(super) fn forget_passed_uses(&self) -> bool {
        if !self.foreign.load(Ordering::Acquire) {
            return true;
        }
        let mut uses = self.uses();
        uses.retain(|other| !other.stream.progress().passed(other.read.max(other.written)));
        let none = uses.is_empty();
        if none {
            self.foreign.store(false, Ordering::Release);
        }
        none
    }

    /// The latest use of each other stream.
    pub(super) fn foreign_uses(&self) -> SmallVec<[Timepoint; 2]> {
        let point =
            |other: &ForeignUse| Timepoint::new(other.stream, other.read.max(other.written));
        self.uses().iter().map(point).collect()
    }
}

/// A piece of device memory. Clones name the same memory.
///
/// # Thread safety
///
/// Any thread may use, clone or drop any buffer. Commands of different streams that use one buffer are
/// put in order by themselves: a read waits for the last write, a write waits for everything. Memory
/// is used again only when every stream has passed its last use of it.
pub struct Buffer(NonNull<Block>);

// SAFETY: a block's fields are constants, atomics or behind a lock, and its memory is only reached
// through Commands, which streams put in order.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

// A panic leaves a block usable; see `StreamInner`.
impl std::panic::RefUnwindSafe for Block {}

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
        self.block().bytes.load(Ordering::Relaxed)
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

    /// Declares the contents final: waits until they are complete, after which reading them from any
    /// stream costs nothing and records nothing, and writing them is an error. For weights.
    ///
    /// # Errors
    ///
    /// The fault of a command that writes the buffer, a timeout, or a device that is gone.
    pub fn settle(&self) -> Result<()> {
        let block = self.block();
        if block.is_settled() {
            return Ok(());
        }
        Timepoint::new(block.home, block.written()).wait()?;
        for point in block.foreign_uses() {
            point.wait()?;
        }
        block.settle();
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
        // Relaxed is enough: the new holder comes from an existing one, as in `Arc`.
        self.block().changing.holders.fetch_add(1, Ordering::Relaxed);
        Buffer(self.0)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let block = self.block();
        if block.changing.holders.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        // See the other holders' uses before the block goes back. (A load instead of a fence, which
        // ThreadSanitizer does not model.)
        block.changing.holders.load(Ordering::Acquire);
        super::give_back(self.0);
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
        write!(f, "Buffer({} bytes, {}, stream {})", self.bytes(), device.name(), self.home())
    }
}
