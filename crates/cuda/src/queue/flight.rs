//! Batches that the device has, and what becomes of them.
//!
//! Guarded by a lock that is held for moments only: never while launching, copying or waiting. The right
//! to take finished batches off is a token, `retiring`, so that progress is made in order; whoever finds
//! it taken goes away.
//!
//! A fault fails everything from its Command on that was submitted. That is told once, when the device is
//! through with all of it: until then it may still touch the memory, which must not be used again.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use millstream_core::{Batch, Error};

use super::prepare::Stamps;
use super::staging::Staging;

/// A batch that was launched.
pub(crate) struct Entry {
    pub batch: Batch,
    /// The tick that says that it is through.
    pub tick: u64,
    pub staging: Option<Arc<Staging>>,
    pub stamps: Option<Stamps>,
    /// Why it fails although the device ran it, or a part of it.
    pub doomed: Option<Error>,
    /// Dropped when it is through.
    pub keep: Vec<Box<dyn Any + Send>>,
}

/// A fault that is not told yet.
pub(crate) struct Broken {
    pub first: u64,
    pub error: Error,
}

/// What the lock guards.
#[derive(Default)]
pub(crate) struct Flight {
    pub entries: VecDeque<Entry>,
    /// Somebody is taking batches off.
    pub retiring: bool,
    /// Somebody is launching a batch that is not in `entries` yet.
    pub launching: bool,
    /// The last sequence number submitted.
    pub submitted: u64,
    pub broken: Option<Broken>,
}

impl Flight {
    /// Everything from `first` on fails, as soon as the device is through with it.
    pub fn break_from(&mut self, first: u64, error: Error) {
        if self.broken.as_ref().is_none_or(|broken| first < broken.first) {
            self.broken = Some(Broken { first, error });
        }
    }

    /// Whether the batch with that last sequence number comes before everything that is to fail.
    pub fn is_sound(&self, last: u64) -> bool {
        self.broken.as_ref().is_none_or(|broken| last < broken.first)
    }

    /// The fault that can be told now, with the last sequence number that it fails.
    pub fn take_broken(&mut self) -> Option<(Broken, u64)> {
        if !self.entries.is_empty() || self.launching || self.retiring {
            return None;
        }
        self.broken.take().map(|broken| (broken, self.submitted))
    }

    /// The tick of the oldest batch, or a number that is never reached.
    pub fn front_tick(&self) -> u64 {
        self.entries.front().map_or(u64::MAX, |entry| entry.tick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(sequence: u64) -> Entry {
        Entry {
            batch: Batch {
                commands: Vec::new(),
                first: sequence,
                last: sequence,
                waits: Default::default(),
                epoch: 0,
                caller_waits: false,
            },
            tick: sequence,
            staging: None,
            stamps: None,
            doomed: None,
            keep: Vec::new(),
        }
    }

    #[test]
    fn a_fault_is_told_when_the_device_is_through_with_everything() {
        let mut flight = Flight { submitted: 2, ..Default::default() };
        flight.entries.push_back(entry(2));
        let fault = |sequence| Error::DeviceClosed { device: sequence };
        flight.break_from(1, fault("first".into()));
        flight.break_from(2, fault("second".into()));
        assert!(flight.take_broken().is_none());
        flight.entries.pop_front();
        flight.launching = true;
        assert!(flight.take_broken().is_none());
        flight.launching = false;
        let (broken, last) = flight.take_broken().unwrap();
        assert_eq!((broken.first, last), (1, 2));
        assert_eq!(broken.error, fault("first".into()));
        assert!(flight.take_broken().is_none());
    }

    #[test]
    fn the_earliest_fault_counts_and_what_comes_before_it_is_sound() {
        let mut flight = Flight { submitted: 9, ..Default::default() };
        let fault = |text: &str| Error::DeviceClosed { device: text.into() };
        flight.break_from(5, fault("later"));
        assert!(flight.is_sound(4) && !flight.is_sound(5) && !flight.is_sound(9));
        flight.break_from(3, fault("earlier"));
        flight.break_from(4, fault("between"));
        assert!(flight.is_sound(2) && !flight.is_sound(3));
        let (broken, _) = flight.take_broken().unwrap();
        assert_eq!((broken.first, broken.error), (3, fault("earlier")));
        assert!(flight.is_sound(9));
    }

    #[test]
    fn the_front_tick_is_that_of_the_oldest() {
        let mut flight = Flight::default();
        assert_eq!(flight.front_tick(), u64::MAX);
        flight.entries.extend([entry(3), entry(4)]);
        assert_eq!(flight.front_tick(), 3);
    }
}
