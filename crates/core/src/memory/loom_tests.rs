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

use super::departures::Departures;
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
    departures: Departures,
}

impl Budget {
    /// As `trim_stream` does it.
    fn trim(&self) {
        {
            let mut cached = self.cached.lock().unwrap();
            if !std::mem::take(&mut *cached) {
                return;
            }
            self.departures.begin();
        }
        self.reserved.fetch_sub(1, Ordering::Relaxed);
        self.departures.end();
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
            departures: Departures::new(),
        });
        let other = {
            let budget = Arc::clone(&budget);
            thread::spawn(move || budget.trim())
        };
        loop {
            let before = budget.departures.over();
            if budget.take() {
                break;
            }
            budget.trim();
            if budget.take() {
                break;
            }
            assert!(budget.departures.any_since(before, None), "a shortage was reported");
        }
        other.join().unwrap();
    });
}
