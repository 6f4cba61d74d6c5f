//! Which launches of a batch must come one after the other.
//!
//! Commands that touch different memory, or only read what they share, may run at the same time. The launches of one
//! Command come in order, and so do Commands that use the scratch memory, which is one for all.

use millstream_core::{Access, BoundCommand, RawBuffer};

/// Uses that are told apart; with more, the next Command waits for all of them.
const MAX_USES: usize = 64;

/// Bytes that a Command uses.
#[derive(Clone, Copy, Debug)]
struct Use {
    start: usize,
    end: usize,
    writes: bool,
}

impl Use {
    fn meets(&self, other: &Use) -> bool {
        (self.writes || other.writes) && self.start < other.end && other.start < self.end
    }
}

/// What was launched since everything had to end.
#[derive(Debug, Default)]
pub(super) struct Hazards {
    uses: Vec<Use>,
    /// Those of the Command that is being added.
    own: Vec<Use>,
    /// It has launches already.
    has_launches: bool,
    /// Nobody knows what is running.
    unknown: bool,
    /// The work of that Command.
    pub work: u64,
}

impl Hazards {
    /// Nothing of this batch is running.
    pub fn clear(&mut self) {
        self.uses.clear();
        self.begin_between();
        self.unknown = false;
    }

    /// The next launches are those of a Command.
    pub fn begin(&mut self, command: &BoundCommand) {
        self.begin_between();
        for (access, operand) in command.accesses() {
            let (layout, address) = (&operand.layout, operand.buffer.address);
            if !layout.is_empty() {
                let (start, end) =
                    (address + layout.start_bytes(), address + layout.extent_bytes());
                self.own.push(Use { start, end, writes: access == Access::Write });
            }
        }
    }

    /// The next launches belong to no Command.
    pub fn begin_between(&mut self) {
        self.own.clear();
        self.has_launches = false;
        self.work = 0;
    }

    /// The Command writes this memory too.
    pub fn add_scratch(&mut self, scratch: RawBuffer) {
        let RawBuffer { address: start, bytes } = scratch;
        self.own.push(Use { start, end: start + bytes, writes: true });
    }

    /// Nobody knows what was launched.
    pub fn set_unknown(&mut self) {
        self.unknown = true;
    }

    /// A launch is added: whether all before it must have ended.
    pub fn waits(&mut self) -> bool {
        let meets = |own: &Use| self.uses.iter().any(|other| own.meets(other));
        let waits = self.has_launches || self.unknown || self.own.iter().any(meets);
        let is_full = self.uses.len() + self.own.len() > MAX_USES;
        if waits || is_full {
            self.uses.clear();
            self.unknown = false;
        }
        if !self.has_launches || waits {
            self.uses.extend_from_slice(&self.own);
        }
        self.has_launches = true;
        waits || is_full
    }
}

#[cfg(test)]
mod tests;
