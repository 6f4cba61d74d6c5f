//! Counters of a stream.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a stream, or all streams of a device together, did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Commands recorded.
    pub commands: u64,
    /// Bytes that their operands hold densely.
    pub bytes: u64,
    /// Batches submitted.
    pub submits: u64,
    /// Submits that somebody asked for, rather than a full batch.
    pub flushes: u64,
    /// Waits for another stream that a batch carried.
    pub waits: u64,
    /// Times a thread blocked for the device.
    pub blocks: u64,
    /// Times the stream was handed to a thread although another one had it.
    pub shares: u64,
    /// Batches that the device recognized and ran again as they were; see
    /// [`Queue::replays`](crate::Queue::replays).
    pub replays: u64,
}

impl std::ops::Add for Counters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            commands: self.commands + other.commands,
            bytes: self.bytes + other.bytes,
            submits: self.submits + other.submits,
            flushes: self.flushes + other.flushes,
            waits: self.waits + other.waits,
            blocks: self.blocks + other.blocks,
            shares: self.shares + other.shares,
            replays: self.replays + other.replays,
        }
    }
}

/// The live counters of one stream. They lie on lines of that stream alone.
#[derive(Default)]
pub(crate) struct LiveCounters {
    pub commands: AtomicU64,
    pub bytes: AtomicU64,
    pub submits: AtomicU64,
    pub flushes: AtomicU64,
    pub waits: AtomicU64,
    pub blocks: AtomicU64,
    pub shares: AtomicU64,
    /// Those of `shares` that have not ended.
    pub sharers: AtomicU64,
}

impl LiveCounters {
    /// Adds under the stream's lock: with one writer at a time no read-modify-write is needed.
    pub fn add_locked(counter: &AtomicU64, amount: u64) {
        counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
    }

    pub fn read(&self) -> Counters {
        Counters {
            commands: self.commands.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            submits: self.submits.load(Ordering::Relaxed),
            flushes: self.flushes.load(Ordering::Relaxed),
            waits: self.waits.load(Ordering::Relaxed),
            blocks: self.blocks.load(Ordering::Relaxed),
            shares: self.shares.load(Ordering::Relaxed),
            // The queue knows.
            replays: 0,
        }
    }
}
