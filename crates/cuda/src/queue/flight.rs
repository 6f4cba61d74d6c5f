//! Batches that were taken and that nobody has seen complete.
//!
//! Guarded by a lock that is held for moments only: never while launching, copying or waiting. The right
//! to take finished batches off is a token, `retiring`, so that progress is made in order; whoever finds
//! it taken goes away.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use millstream_core::Batch;

use super::failures::Failures;
use super::page::SLOTS;
use super::prepare::Stamps;
use super::staging::Staging;

/// A batch that was taken.
pub(crate) struct Entry {
    pub batch: Batch,
    /// The tick that says that it is through: its own, or that of the batch before it if nothing of it was
    /// launched.
    pub tick: u64,
    /// What was launched of it ends with a tick of its own.
    pub launched: bool,
    pub staging: Option<Arc<Staging>>,
    pub stamps: Option<Stamps>,
    /// What the device did not run.
    pub failures: Failures,
    /// Dropped when it is through.
    pub keep: Vec<Box<dyn Any + Send>>,
}

/// What the lock guards.
#[derive(Default)]
pub(crate) struct Flight {
    pub entries: VecDeque<Entry>,
    /// Somebody is taking a batch off, which is not in `entries` then.
    pub retiring: bool,
}

impl Flight {
    /// The tick of the oldest, or more than there will ever be.
    pub fn front_tick(&self) -> u64 {
        self.entries.front().map_or(u64::MAX, |entry| entry.tick)
    }

    /// Whether one more may be launched: every batch in flight has a slot of its own for its faults.
    pub fn has_room(&self) -> bool {
        self.entries.len() + usize::from(self.retiring) < SLOTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(tick: u64) -> Entry {
        Entry {
            batch: Batch::new(Vec::new(), tick, &[]),
            tick,
            launched: true,
            staging: None,
            stamps: None,
            failures: Failures::default(),
            keep: Vec::new(),
        }
    }

    #[test]
    fn the_front_tick_is_that_of_the_oldest() {
        let mut flight = Flight::default();
        assert_eq!(flight.front_tick(), u64::MAX);
        flight.entries.extend([entry(3), entry(4)]);
        assert_eq!(flight.front_tick(), 3);
    }

    #[test]
    fn no_more_are_in_flight_than_have_slots() {
        let mut flight = Flight::default();
        while flight.has_room() {
            flight.entries.push_back(entry(1));
        }
        assert_eq!(flight.entries.len(), SLOTS);
        // One that is being taken off still has its slot.
        flight.entries.pop_front();
        flight.retiring = true;
        assert!(!flight.has_room());
        flight.retiring = false;
        assert!(flight.has_room());
    }
}
