//! Blocks of device memory.

use std::ptr::NonNull;

use smallvec::SmallVec;

use super::uses::Uses;
use crate::fault::{Fault, Marks, Value};
use crate::stream::{StreamInner, Timepoint};
use crate::sync::schedule::{
    AtomicBool, AtomicU32, AtomicUsize, Mutex, MutexGuard, Ordering, PoisonError,
};
use crate::sync::shim::{AtomicPtr, AtomicU64};
use crate::sync::{Flag, Linked, RefCount};
use crate::{Layout, Result};

/// A block of device memory. It belongs to its home stream, which reuses it when it has no handles.
///
/// On the hot path the first cache line is only read. What changes with use lies on the second, so that streams
/// that read the same weights share no cache line that is written.
///
/// The last uses are tracked in one of two ways. As long as only the home stream uses the block, the order of that
/// stream is enough: only `written` is kept, under the home stream's lock. Another stream first announces itself
/// under the home stream's lock ([`share`](Self::share)). From then on every stream, home included, reads the
/// earlier uses and adds its own in one step, under the lock of `uses`. So of two Commands that use one block, the
/// second to take the lock sees the first, on whatever streams they are.
#[repr(C, align(64))]
pub(crate) struct Block {
    pub(super) address: usize,
    /// Where the host sees the first byte; 0 if it does not.
    host: usize,
    pub(super) class: u32,
    pub(super) slab: u32,
    pub(crate) home: &'static StreamInner,
    /// The size asked for; at most the size of the class.
    pub(super) bytes: AtomicUsize,
    /// Counts allocations of the block: Commands of an earlier one may still be in flight.
    generation: AtomicU64,
    /// How many bytes, from the first on, were written or will be by recorded Commands. The bytes behind them may be
    /// another caller's data, and are cleared before they can be read. Guarded as the uses are.
    covered: AtomicUsize,
    /// The number of the thread that it was last allocated for.
    thread: AtomicU32,
    settled: Flag,
    /// Whether other streams than home use it. Then `uses` is valid.
    shared: AtomicBool,
    changing: Changing,
}

/// What is only read shares no cache line with what changes.
#[cfg(not(any(loom, schedule)))]
const _: () = assert!(std::mem::offset_of!(Block, changing) == 64);

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

// SAFETY: `link` is used by the return stack only.
unsafe impl Linked for Block {
    fn link(&self) -> &AtomicPtr<Block> {
        &self.changing.link
    }
}

impl Block {
    pub(super) fn new(
        address: usize,
        host: Option<usize>,
        class: usize,
        slab: usize,
        home: &'static StreamInner,
    ) -> NonNull<Self> {
        let block = Block {
            address,
            host: host.unwrap_or(0),
            class: class as u32,
            slab: slab as u32,
            home,
            bytes: AtomicUsize::new(0),
            generation: AtomicU64::new(0),
            covered: AtomicUsize::new(0),
            thread: AtomicU32::new(0),
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

    /// Prepares the block for a new holder. Commands recorded so far may still use it. They are all on the home
    /// stream, so another stream that uses the block waits for them first.
    pub(super) fn prepare(&self, bytes: usize, recorded: u64, thread: u32) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.thread.store(thread, Ordering::Relaxed);
        // Relaxed: the block has no holder yet, and handing it over publishes these.
        let generation = self.generation.load(Ordering::Relaxed) + 1;
        self.generation.store(generation, Ordering::Relaxed);
        self.covered.store(0, Ordering::Relaxed);
        self.changing.written.store(recorded, Ordering::Relaxed);
        self.settled.clear();
        self.changing.holders.reset();
    }

    /// Counts one more holder.
    pub(super) fn add_holder(&self) {
        self.changing.holders.increment();
    }

    /// Counts one holder less. Whether it was the last, which then sees what the others did.
    pub(super) fn remove_holder(&self) -> bool {
        self.changing.holders.decrement()
    }

    pub(crate) fn lock_uses(&self) -> MutexGuard<'_, Uses> {
        self.changing.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.changing.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the thread that it was last allocated for.
    pub(super) fn thread(&self) -> u32 {
        self.thread.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.settled.is_set()
    }

    /// Whether other streams than home use it. Home reads it with its lock held, so it misses none.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Acquire)
    }

    /// Lets other streams in. With no lock of a stream held.
    pub(crate) fn share(&self) {
        let home = self.home.lock();
        let mut uses = self.lock_uses();
        if !self.is_shared() {
            // Reads at home were not tracked, so other streams wait for all that home has recorded.
            let written = self.changing.written.load(Ordering::Relaxed);
            uses.begin(self.home, home.recorded, written);
            self.shared.store(true, Ordering::Release);
        }
    }

    /// Adds a write by home to a block that is not shared. With home's lock held.
    pub(crate) fn note_write_at_home(&self, sequence: u64) {
        self.changing.written.store(sequence, Ordering::Relaxed);
    }

    /// A number that is unique among the allocations of this block.
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

    /// Makes a new block final that has all its contents, and that nobody else knows yet.
    pub(super) fn begin_settled(&self, bytes: usize, thread: u32) {
        self.prepare(bytes, 0, thread);
        self.set_covered(bytes);
        self.settled.set();
    }

    /// Where the host sees the first byte, if it does.
    pub(crate) fn host(&self) -> Option<NonNull<u8>> {
        NonNull::new(self.host as *mut u8)
    }

    /// Whether the device is through with everything that was recorded before this allocation. Then nothing uses the
    /// memory until the first Command of this allocation is submitted. What a lost device was given may still run.
    pub(crate) fn is_idle_since_allocation(&self) -> bool {
        let written = self.changing.written.load(Ordering::Relaxed);
        !self.is_shared() && self.home.progress().completed() >= written
    }

    /// The fault of what a Command reads, if it failed.
    pub(crate) fn failed(&self, generation: u64, layout: &Layout) -> Option<Fault> {
        if self.changing.failed.load(Ordering::Acquire) != generation {
            return None;
        }
        self.marks().find(generation, layout).cloned()
    }

    /// Marks the output of a Command as failed.
    pub(crate) fn fail(&self, generation: u64, layout: &Layout, fault: &Fault) {
        let mut marks = self.marks();
        marks.fail(generation, layout, fault);
        self.changing.failed.store(generation, Ordering::Release);
    }

    /// Clears the marks of what a Command has written.
    pub(crate) fn overwrite(&self, generation: u64, layout: &Layout) {
        if self.changing.failed.load(Ordering::Acquire) != generation {
            return;
        }
        let mut marks = self.marks();
        if !marks.overwrite(generation, layout) {
            self.changing.failed.store(0, Ordering::Release);
        }
    }

    /// Drops the uses of other streams if all of them have passed. Only for home, and a block without handles.
    pub(super) fn forget_passed_uses(&self) -> bool {
        if !self.is_shared() {
            return true;
        }
        let mut uses = self.lock_uses();
        let none = uses.forget_passed(self.home);
        if none {
            self.shared.store(false, Ordering::Release);
        }
        none
    }

    /// The latest use of each other stream.
    pub(super) fn foreign_uses(&self) -> SmallVec<[Timepoint; 2]> {
        self.lock_uses().of_others(self.home)
    }

    /// Marks the contents as final if they are complete. If not, says what has to be done first.
    ///
    /// Home's lock and that of the uses are held together, so that no write is recorded meanwhile.
    pub(super) fn try_settle(&self) -> Result<Settling> {
        let _home = self.home.lock();
        let uses = self.lock_uses();
        let writes = self.last_writes(&uses);
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
        // A thread that sees the flag reads the contents without waiting for the writes.
        self.settled.set();
        Ok(Settling::Done)
    }
}

impl Block {
    /// The last write of each stream. With home's lock and that of the uses held.
    fn last_writes(&self, uses: &Uses) -> SmallVec<[Timepoint; 2]> {
        if self.is_shared() {
            return uses.writes();
        }
        let written = self.changing.written.load(Ordering::Relaxed);
        SmallVec::from_slice(&[Timepoint::new(self.home, written)])
    }

    /// Reads the elements of a layout that lies inside the block, if they are complete. If not, says what has to be done first.
    ///
    /// As for settling, two locks are held, so that no write is recorded meanwhile. What is large is not read under locks;
    /// settled contents need none.
    pub(super) fn try_read(
        &self,
        layout: &Layout,
        read: &mut Option<impl FnOnce(&[u8])>,
    ) -> Result<Reading> {
        let (start, bytes) = (layout.start_bytes(), layout.dense_bytes());
        let Some(host) = self.host() else { return Ok(Reading::Elsewhere) };
        let found = || {
            // SAFETY: the caller holds the block, of which the layout is a part. It is called when all writes are through and no
            // other begins before the bytes are passed on: the block is settled, or the locks keep them out.
            unsafe { std::slice::from_raw_parts(host.as_ptr().add(start).cast_const(), bytes) }
        };
        if self.is_settled() {
            read.take().into_iter().for_each(|read| read(found()));
            return Ok(Reading::Done(Timepoint::new(self.home, 0)));
        }
        let _home = self.home.lock();
        let uses = self.lock_uses();
        let writes = self.last_writes(&uses);
        if let Some(point) = writes.iter().find(|point| !point.passed()) {
            return Ok(Reading::WaitFor(*point));
        }
        let generation = self.generation.load(Ordering::Relaxed);
        if let Some(fault) = self.failed(generation, layout) {
            return Err(fault.report());
        }
        // What a lost queue was given counts as passed, and may still run.
        let is_through =
            |point: &Timepoint| point.stream().progress().completed() >= point.sequence();
        let complete = writes.iter().all(is_through) && layout.extent_bytes() <= self.covered();
        if !complete || bytes > MAX_READ_UNDER_LOCKS {
            return Ok(Reading::Elsewhere);
        }
        read.take().into_iter().for_each(|read| read(found()));
        Ok(Reading::Done(writes.first().copied().unwrap_or(Timepoint::new(self.home, 0))))
    }
}

/// Bytes that are copied while a stream's lock is held: a few microseconds.
const MAX_READ_UNDER_LOCKS: usize = 64 << 10;

/// What came of reading in place.
pub(super) enum Reading {
    /// It was done, after this point.
    Done(Timepoint),
    /// A write has not passed.
    WaitFor(Timepoint),
    /// Only a recorded copy can do it.
    Elsewhere,
}

/// The next step of settling a buffer.
pub(super) enum Settling {
    Done,
    /// A write has not passed.
    WaitFor(Timepoint),
    /// Some bytes were never written.
    Clear,
}

// A panic leaves a block usable; see `StreamInner`.
impl std::panic::RefUnwindSafe for Block {}
