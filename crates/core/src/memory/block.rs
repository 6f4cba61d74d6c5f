//! Blocks of device memory and the handles that keep them alive.

use std::fmt;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::command::{Access, BufferLike, RawBuffer};
use crate::fault::{Fault, Marks, Value};
use crate::stream::{StreamInner, Timepoint};
use crate::sync::schedule::{AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering, PoisonError};
use crate::sync::shim::{AtomicPtr, AtomicU64};
use crate::sync::{Flag, Linked, RefCount};
use crate::{Device, Layout, Operand, Result};

/// A block of device memory. It belongs to its home stream, which reuses it when nobody holds it.
///
/// The first cache line is only read on the hot path; what changes with use lies on the second, so
/// that streams which read the same weights do not disturb each other.
///
/// Who used it last is known in one of two ways. As long as only its home stream uses it, that stream's own
/// order is all that is needed: `written` is enough, guarded by the home stream's lock. When another stream
/// comes, it first says so under the home stream's lock ([`share`](Self::share)); from then on every stream,
/// home included, looks for those before it and adds itself in one go, under the lock of `uses`. So of two
/// Commands that use one block the second to take the lock sees the first, whatever streams they are on.
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
    /// Counts allocations of the block: commands of an earlier one may still be under way.
    generation: AtomicU64,
    /// As many bytes from the first on were written, or will be by what is recorded. What lies behind may
    /// be somebody else's and is cleared before it can be read. Guarded as the uses are.
    covered: AtomicUsize,
    settled: Flag,
    /// Whether other streams than home use it, so that `uses` counts.
    shared: AtomicBool,
    changing: Changing,
}

#[repr(align(64))]
struct Changing {
    holders: RefCount,
    /// The home stream's sequence number of the last write there, or of the allocation.
    written: AtomicU64,
    link: AtomicPtr<Block>,
    uses: Mutex<Uses>,
    /// The allocation that has marks. Written with the marks locked.
    failed: AtomicU64,
    marks: Mutex<Marks>,
}

/// The uses of a shared block.
#[derive(Default)]
pub(crate) struct Uses {
    /// At most one entry per stream.
    list: SmallVec<[Use; 2]>,
    /// Who comes next.
    claim: Option<Claim>,
}

/// A stream whose access waits for others to submit theirs, and until when nobody overtakes it.
#[derive(Clone, Copy)]
struct Claim {
    stream: &'static StreamInner,
    until: Instant,
}

/// How long others let a stream go first that waits for them to submit: many times what submitting takes. A
/// stream that does not come meanwhile may claim again.
const PRECEDENCE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy)]
struct Use {
    stream: &'static StreamInner,
    read: u64,
    written: u64,
}

impl Use {
    fn last(&self) -> Timepoint {
        Timepoint::new(self.stream, self.read.max(self.written))
    }
}

impl Uses {
    /// Calls `need` with every point of other streams that an access by `user` comes after.
    pub fn dependencies(
        &self,
        user: &'static StreamInner,
        access: Access,
        mut need: impl FnMut(Timepoint),
    ) {
        for other in self.list.iter().filter(|other| !std::ptr::eq(other.stream, user)) {
            match access {
                Access::Read => need(Timepoint::new(other.stream, other.written)),
                Access::Write => need(other.last()),
            }
        }
    }

    /// Remembers a use. Called with the user's recorder locked, so that sequence numbers are in order.
    pub fn note(&mut self, user: &'static StreamInner, access: Access, sequence: u64) {
        let known = self.list.iter().position(|other| std::ptr::eq(other.stream, user));
        let index = known.unwrap_or_else(|| {
            self.list.push(Use { stream: user, read: 0, written: 0 });
            self.list.len() - 1
        });
        match access {
            Access::Read => self.list[index].read = sequence,
            Access::Write => self.list[index].written = sequence,
        }
    }

    /// The last write of each stream.
    fn writes(&self) -> SmallVec<[Timepoint; 2]> {
        self.list.iter().map(|other| Timepoint::new(other.stream, other.written)).collect()
    }

    /// Whether another stream comes first.
    pub fn is_claimed_from(&self, user: &'static StreamInner) -> bool {
        self.claim
            .is_some_and(|claim| !std::ptr::eq(claim.stream, user) && Instant::now() < claim.until)
    }

    /// The stream comes next. Where others keep recording, it would else find new uses at every look.
    pub fn claim(&mut self, user: &'static StreamInner) {
        self.claim = Some(Claim { stream: user, until: Instant::now() + PRECEDENCE });
    }

    /// The stream has come.
    pub fn release(&mut self, user: &'static StreamInner) {
        self.claim.take_if(|claim| std::ptr::eq(claim.stream, user));
    }
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
            generation: AtomicU64::new(0),
            covered: AtomicUsize::new(0),
            settled: Flag::default(),
            shared: AtomicBool::new(false),
            changing: Changing {
                holders: RefCount::default(),
                written: AtomicU64::new(0),
                link: AtomicPtr::new(std::ptr::null_mut()),
                uses: Mutex::default(),
                failed: AtomicU64::new(0),
                marks: Mutex::default(),
            },
        };
        NonNull::from(Box::leak(Box::new(block)))
    }

    /// Makes the block ready for a new holder. Commands recorded so far may still use it; they all lie
    /// on the home stream, so another stream that comes to it first waits for them.
    pub(super) fn prepare(&self, bytes: usize, recorded: u64, thread: usize) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.thread.store(thread, Ordering::Relaxed);
        // Relaxed: the block has no holder yet, and whoever gets it is handed these with it.
        let generation = self.generation.load(Ordering::Relaxed) + 1;
        self.generation.store(generation, Ordering::Relaxed);
        self.covered.store(0, Ordering::Relaxed);
        self.changing.written.store(recorded, Ordering::Relaxed);
        self.settled.clear();
        self.changing.holders.reset();
    }

    pub(crate) fn lock_uses(&self) -> MutexGuard<'_, Uses> {
        self.changing.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.changing.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the thread that it was last allocated for.
    pub(super) fn thread(&self) -> usize {
        self.thread.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.settled.is_set()
    }

    /// Whether other streams than home use it. Home looks with its lock held, so none slips in unseen.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Acquire)
    }

    /// Lets other streams in. With no lock of a stream held.
    pub(crate) fn share(&self) {
        let home = self.home.lock();
        let mut uses = self.lock_uses();
        if !self.is_shared() {
            // Reads at home left no trace, so what comes from elsewhere is after all that home has recorded.
            let written = self.changing.written.load(Ordering::Relaxed);
            uses.list.push(Use { stream: self.home, read: home.recorded, written });
            self.shared.store(true, Ordering::Release);
        }
    }

    /// Remembers a write by home of a block that is not shared. With home's lock held.
    pub(crate) fn note_write_at_home(&self, sequence: u64) {
        self.changing.written.store(sequence, Ordering::Relaxed);
    }

    /// A number that no other allocation of a block that lives has, for as long as the block does.
    pub(crate) fn allocation(&self) -> (usize, u64) {
        (std::ptr::from_ref(self).addr(), self.generation.load(Ordering::Relaxed))
    }

    /// This allocation of the block, as a value that a Command uses.
    pub(crate) fn value(&self) -> Value {
        let block = (!self.is_settled()).then(|| NonNull::from(self));
        Value { block, generation: self.generation.load(Ordering::Relaxed) }
    }

    /// Bytes from the first on that were or will be written. With what guards the uses.
    pub(crate) fn covered(&self) -> usize {
        self.covered.load(Ordering::Relaxed)
    }

    /// With what guards the uses.
    pub(crate) fn set_covered(&self, bytes: usize) {
        self.covered.store(bytes, Ordering::Relaxed);
    }

    /// Why what a Command reads is not there.
    pub(crate) fn failed(&self, generation: u64, layout: &Layout) -> Option<Fault> {
        if self.changing.failed.load(Ordering::Acquire) != generation {
            return None;
        }
        self.marks().find(generation, layout).cloned()
    }

    /// What a Command should have written is not there.
    pub(crate) fn fail(&self, generation: u64, layout: &Layout, fault: &Fault) {
        let mut marks = self.marks();
        marks.fail(generation, layout, fault);
        self.changing.failed.store(generation, Ordering::Release);
    }

    /// A Command has written.
    pub(crate) fn overwrite(&self, generation: u64, layout: &Layout) {
        if self.changing.failed.load(Ordering::Acquire) != generation {
            return;
        }
        let mut marks = self.marks();
        if !marks.overwrite(generation, layout) {
            self.changing.failed.store(0, Ordering::Release);
        }
    }

    /// Forgets the uses of other streams if the device is through with all of them. Only for home, of a
    /// block that nobody holds.
    pub(super) fn forget_passed_uses(&self) -> bool {
        if !self.is_shared() {
            return true;
        }
        let mut uses = self.lock_uses();
        uses.list.retain(|other| !std::ptr::eq(other.stream, self.home) && !other.last().passed());
        let none = uses.list.is_empty();
        if none {
            // Who waited for it has given up: the next holders owe it nothing.
            uses.claim = None;
            self.shared.store(false, Ordering::Release);
        }
        none
    }

    /// The latest use of each other stream.
    pub(super) fn foreign_uses(&self) -> SmallVec<[Timepoint; 2]> {
        let uses = self.lock_uses();
        let foreign = uses.list.iter().filter(|other| !std::ptr::eq(other.stream, self.home));
        foreign.map(Use::last).collect()
    }

    /// Marks the contents as final, if they are complete; else what has to be done first.
    ///
    /// Home's lock and that of the uses are held together, so that no write is recorded meanwhile.
    fn try_settle(&self) -> Result<Settling> {
        let _home = self.home.lock();
        let uses = self.lock_uses();
        let writes = if self.is_shared() {
            uses.writes()
        } else {
            let written = self.changing.written.load(Ordering::Relaxed);
            SmallVec::from_slice(&[Timepoint::new(self.home, written)])
        };
        if let Some(point) = writes.into_iter().find(|point| !point.passed()) {
            return Ok(Settling::WaitFor(point));
        }
        let generation = self.generation.load(Ordering::Relaxed);
        if self.changing.failed.load(Ordering::Acquire) == generation
            && let Some(fault) = self.marks().any(generation)
        {
            return Err(fault.report());
        }
        if self.covered() < self.bytes() {
            return Ok(Settling::Clear);
        }
        // Whoever sees it reads the contents without waiting for the writes that have passed here.
        self.settled.set();
        Ok(Settling::Done)
    }
}

/// What comes next for a buffer that is to be settled.
enum Settling {
    Done,
    /// A write has not passed.
    WaitFor(Timepoint),
    /// Some bytes were never written.
    Clear,
}

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

    /// Declares the contents final: waits until they are complete, after which reading them from any
    /// stream costs nothing and records nothing, and writing them is an error. For weights.
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
                Settling::Done => break,
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
        self.block().changing.holders.increment();
        Buffer(self.0)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // The last one sees the other holders' uses before the block goes back.
        if self.block().changing.holders.decrement() {
            super::give_back(self.0);
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
