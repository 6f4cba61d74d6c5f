//! Memory that may still be written when a kernel starts.
//!
//! A kernel of ours may start while the previous one still runs. It waits for the previous one before it lets the
//! next one start, so at most one earlier kernel is running. Without waiting, it may read what that kernel does not
//! write.

use millstream_core::RawBuffer;
use smallvec::SmallVec;

/// How many buffers are tracked; with more, everything counts as written.
const MAX_BUFFERS: usize = 8;

/// The memory that may still be written when the next kernel starts. Scratch memory is not included: it is no input
/// of a Command.
#[derive(Debug, Default)]
pub(super) struct Written {
    buffers: SmallVec<[RawBuffer; MAX_BUFFERS]>,
    anything: bool,
}

impl Written {
    /// A kernel of ours was added that writes these buffers. When the next kernel starts, everything before this one
    /// has ended.
    pub fn replace(&mut self, buffers: &[RawBuffer]) {
        self.clear();
        self.add(buffers);
    }

    /// Something was added that may let the next kernel start without waiting for earlier ones. So earlier ones may
    /// still be running.
    pub fn add(&mut self, buffers: &[RawBuffer]) {
        if self.buffers.len() + buffers.len() > MAX_BUFFERS {
            self.anything = true;
        } else {
            self.buffers.extend_from_slice(buffers);
        }
    }

    /// Nothing that may be running writes what Commands read.
    pub fn clear(&mut self) {
        self.buffers.clear();
        self.anything = false;
    }

    /// It is unknown what may be running.
    pub fn set_unknown(&mut self) {
        self.anything = true;
    }

    /// Whether something that may be running writes this buffer.
    pub fn may_reach(&self, buffer: RawBuffer) -> bool {
        let end = |buffer: &RawBuffer| buffer.address.saturating_add(buffer.bytes);
        let meets = |one: &RawBuffer| one.address < end(&buffer) && buffer.address < end(one);
        self.anything || self.buffers.iter().any(meets)
    }
}

#[cfg(test)]
mod tests;
