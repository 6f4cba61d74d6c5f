//! What may still be written when a kernel starts.
//!
//! A kernel of ours may be started while the one before it still runs. It waits for that one before it lets
//! the next be started, so then the one before it is the only one. It may read what that one does not write
//! without waiting.

use millstream_core::RawBuffer;
use smallvec::SmallVec;

/// Buffers that are told apart; with more, everything counts as written.
const MOST_BUFFERS: usize = 8;

/// The memory that what runs when the next kernel starts may write. Scratch memory is left out: no Command
/// has it as an input.
#[derive(Debug, Default)]
pub(super) struct Written {
    buffers: SmallVec<[RawBuffer; MOST_BUFFERS]>,
    anything: bool,
}

impl Written {
    /// A kernel of ours was added, which writes these: everything before it has ended when the next starts.
    pub fn replace(&mut self, buffers: &[RawBuffer]) {
        self.clear();
        self.add(buffers);
    }

    /// Something was added that is not known to wait before it lets the next kernel start. So what was
    /// running then may run still.
    pub fn add(&mut self, buffers: &[RawBuffer]) {
        if self.buffers.len() + buffers.len() > MOST_BUFFERS {
            self.anything = true;
        } else {
            self.buffers.extend_from_slice(buffers);
        }
    }

    /// Nothing that is running writes what Commands read.
    pub fn clear(&mut self) {
        self.buffers.clear();
        self.anything = false;
    }

    /// Nobody knows what is running.
    pub fn set_unknown(&mut self) {
        self.anything = true;
    }

    /// Whether something that is running may write this buffer.
    pub fn may_reach(&self, buffer: RawBuffer) -> bool {
        let end = |buffer: &RawBuffer| buffer.address.saturating_add(buffer.bytes);
        let meets = |one: &RawBuffer| one.address < end(&buffer) && buffer.address < end(one);
        self.anything || self.buffers.iter().any(meets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: RawBuffer = RawBuffer { address: 1000, bytes: 100 };

    fn buffer(address: usize, end: usize) -> RawBuffer {
        RawBuffer { address, bytes: end - address }
    }

    #[test]
    fn a_buffer_reaches_what_it_shares_a_byte_with() {
        let reaches = |address, end| {
            let mut written = Written::default();
            written.replace(&[buffer(address, end)]);
            written.may_reach(READ)
        };
        assert!(reaches(0, 1001) && reaches(1099, 2000) && reaches(1050, 1051));
        assert!(!reaches(0, 1000) && !reaches(1100, 2000));
    }

    #[test]
    fn a_kernel_of_ours_ends_what_was_before_and_a_library_does_not() {
        let mut written = Written::default();
        written.replace(&[buffer(1000, 1100)]);
        written.add(&[buffer(5000, 6000)]);
        assert!(written.may_reach(READ));
        written.replace(&[buffer(5000, 6000)]);
        assert!(!written.may_reach(READ));
    }

    #[test]
    fn what_is_not_known_reaches_everything() {
        let mut written = Written::default();
        for _ in 0..=MOST_BUFFERS {
            assert!(!written.may_reach(READ));
            written.add(&[buffer(0, 1)]);
        }
        assert!(written.may_reach(READ));
        written.clear();
        assert!(!written.may_reach(READ));
        written.set_unknown();
        assert!(written.may_reach(READ));
    }
}
