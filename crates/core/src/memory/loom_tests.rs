//! Memory under loom.
//!
//! Deferred reuse: a block that a foreign stream reads is dropped on a foreign thread while
//! its home stream looks for memory. The same stack and timeline as in the product, with the rule of
//! `StreamCache::collect`: free only what every stream has passed.

use std::ptr::{self, NonNull};

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::pending_frees::PendingFrees;
use crate::sync::{Linked, ReturnStack, Timeline};

/// A block with one foreign use and its memory, whose accesses loom checks for races.
struct Block {
    link: AtomicPtr<Block>,
    foreign_use: AtomicU64,
    memory: UnsafeCell<u32>,
}

// SAFETY: `link` is used by the stack only.
unsafe impl Linked for Block {
    fn link(&self) -> &AtomicPtr<Block> {
        &self.link
    }
}

struct World {
    returns: ReturnStack<Block>,
    reader: Timeline,
    block: NonNull<Block>,
}

// SAFETY: the block is shared as in the product; loom checks the accesses to its memory.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

#[test]
fn loom_a_block_is_written_again_only_after_its_foreign_reader_has_passed() {
    loom::model(|| {
        let block = NonNull::from(Box::leak(Box::new(Block {
            link: AtomicPtr::new(ptr::null_mut()),
            foreign_use: AtomicU64::new(0),
            memory: UnsafeCell::new(7),
        })));
        let world = Arc::new(World { returns: ReturnStack::new(), reader: Timeline::new(), block });

        // The consumer records its use, the device reads, the consumer drops its handle: in this order
        // for the first and the last, with the device anywhere after the first.
        // SAFETY: the block lives until the end of the model.
        unsafe { world.block.as_ref() }.foreign_use.store(1, Ordering::Relaxed);
        let device = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                // SAFETY: as above.
                let block = unsafe { world.block.as_ref() };
                // SAFETY: a read; loom reports a write at the same time.
                block.memory.with(|value| assert_eq!(unsafe { *value }, 7));
                world.reader.advance(1);
            })
        };
        let dropper = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                // SAFETY: the last handle is gone, so the block is handed over.
                unsafe { world.returns.push(world.block) };
            })
        };
        // Home looks again and again, as allocations would.
        let mut deferred = None;
        loop {
            deferred = world.returns.take_all().next().or(deferred);
            if let Some(block) = deferred {
                // SAFETY: home owns what it took.
                let block = unsafe { block.as_ref() };
                if world.reader.value() >= block.foreign_use.load(Ordering::Relaxed) {
                    // SAFETY: every stream has passed; loom reports it if that is not enough.
                    block.memory.with_mut(|value| unsafe { *value = 8 });
                    break;
                }
            }
            thread::yield_now();
        }
        device.join().unwrap();
        dropper.join().unwrap();
        // SAFETY: nobody uses the block any more, and it came from `Box::leak`.
        drop(unsafe { Box::from_raw(world.block.as_ptr()) });
    });
}

/// A budget of one segment, which lies unused in a cache.
struct Budget {
    cached: Mutex<bool>,
    reserved: AtomicUsize,
    pending_frees: PendingFrees,
}

impl Budget {
    /// As `trim_stream` does it.
    fn trim(&self) {
        {
            let mut cached = self.cached.lock().unwrap();
            if !std::mem::take(&mut *cached) {
                return;
            }
            self.pending_frees.begin();
        }
        self.reserved.fetch_sub(1, Ordering::Relaxed);
        self.pending_frees.end();
    }

    fn take(&self) -> bool {
        self.reserved.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// Whoever looks for memory while another thread gives a segment back gets it, and hears of no shortage.
#[test]
fn loom_a_segment_on_its_way_back_is_waited_for() {
    loom::model(|| {
        let budget = Arc::new(Budget {
            cached: Mutex::new(true),
            reserved: AtomicUsize::new(1),
            pending_frees: PendingFrees::new(),
        });
        let other = {
            let budget = Arc::clone(&budget);
            thread::spawn(move || budget.trim())
        };
        loop {
            let before = budget.pending_frees.finished();
            if budget.take() {
                break;
            }
            budget.trim();
            if budget.take() {
                break;
            }
            assert!(budget.pending_frees.any_since(before, None), "a shortage was reported");
        }
        other.join().unwrap();
    });
}

/// A block that its home stream and another one write, as `stream/record.rs` does it: each under its own
/// lock; home without a lock of the block as long as nobody else has come.
struct SharedBlock {
    home: Mutex<u64>,
    shared: loom::sync::atomic::AtomicBool,
    written: AtomicU64,
    /// The last write of home and of the other stream.
    uses: Mutex<[u64; 2]>,
}

impl SharedBlock {
    /// Home records a write; gives what it saw of the other stream.
    fn write_at_home(&self) -> u64 {
        let mut recorded = self.home.lock().unwrap();
        *recorded += 1;
        if !self.shared.load(Ordering::Acquire) {
            self.written.store(*recorded, Ordering::Relaxed);
            return 0;
        }
        let mut uses = self.uses.lock().unwrap();
        uses[0] = *recorded;
        uses[1]
    }

    /// The other stream records a write; gives what it saw of home.
    fn write_elsewhere(&self) -> u64 {
        if !self.shared.load(Ordering::Acquire) {
            let _home = self.home.lock().unwrap();
            let mut uses = self.uses.lock().unwrap();
            uses[0] = self.written.load(Ordering::Relaxed);
            self.shared.store(true, Ordering::Release);
        }
        let mut uses = self.uses.lock().unwrap();
        uses[1] = 1;
        uses[0]
    }
}

/// Of two writers exactly one comes after the other: never neither, which would be a race, and never both,
/// which would be a deadlock.
#[test]
fn loom_of_two_writers_one_sees_the_other() {
    loom::model(|| {
        let block = Arc::new(SharedBlock {
            home: Mutex::new(0),
            shared: loom::sync::atomic::AtomicBool::new(false),
            written: AtomicU64::new(0),
            uses: Mutex::new([0; 2]),
        });
        let other = {
            let block = Arc::clone(&block);
            thread::spawn(move || block.write_elsewhere())
        };
        let at_home = block.write_at_home();
        let elsewhere = other.join().unwrap();
        assert!((at_home == 1) != (elsewhere == 1), "home saw {at_home}, the other {elsewhere}");
    });
}
