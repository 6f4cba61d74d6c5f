//! The uses of a block that several streams use: which of them an access waits for, and which stream goes first.

use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::command::Access;
use crate::stream::{StreamInner, Timepoint};

/// The uses of a shared block.
#[derive(Default)]
pub(crate) struct Uses {
    /// At most one entry per stream.
    list: SmallVec<[Use; 2]>,
    /// The stream that goes first.
    claim: Option<Claim>,
}

/// A stream that waits for others to submit, and until when no other stream may go before it.
#[derive(Clone, Copy)]
struct Claim {
    stream: &'static StreamInner,
    until: Instant,
}

/// How long a claim holds: many times what submitting takes. A stream that has not recorded by then may claim
/// again.
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
    /// Calls `need` with every timepoint of other streams that an access by `user` must wait for.
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

    /// Adds a use. Called with the user's recorder locked, so that sequence numbers are in order.
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

    /// Adds the uses that home made while it was alone.
    pub(super) fn begin(&mut self, home: &'static StreamInner, read: u64, written: u64) {
        self.list.push(Use { stream: home, read, written });
    }

    /// Drops the uses of home, and those of other streams that have passed. Whether none is left.
    pub(super) fn forget_passed(&mut self, home: &'static StreamInner) -> bool {
        self.list.retain(|other| !std::ptr::eq(other.stream, home) && !other.last().passed());
        let none = self.list.is_empty();
        if none {
            // A claim of an earlier holder does not bind the next one.
            self.claim = None;
        }
        none
    }

    /// The latest use of each stream other than home.
    pub(super) fn of_others(&self, home: &'static StreamInner) -> SmallVec<[Timepoint; 2]> {
        let others = self.list.iter().filter(|other| !std::ptr::eq(other.stream, home));
        others.map(Use::last).collect()
    }

    /// The last write of each stream.
    pub(super) fn writes(&self) -> SmallVec<[Timepoint; 2]> {
        self.list.iter().map(|other| Timepoint::new(other.stream, other.written)).collect()
    }

    /// Whether another stream goes first.
    pub fn is_claimed_from(&self, user: &'static StreamInner) -> bool {
        self.claim
            .is_some_and(|claim| !std::ptr::eq(claim.stream, user) && Instant::now() < claim.until)
    }

    /// The stream goes first. Without a claim, streams that keep recording would add new uses before it each time.
    pub fn claim(&mut self, user: &'static StreamInner) {
        self.claim = Some(Claim { stream: user, until: Instant::now() + PRECEDENCE });
    }

    /// The stream has recorded.
    pub fn release(&mut self, user: &'static StreamInner) {
        self.claim.take_if(|claim| std::ptr::eq(claim.stream, user));
    }
}
