//! Segments of host memory.

use std::alloc::{Layout, alloc, dealloc};

use millstream_core::Segment;

/// A cache line and the widest vector; the base of every block is a multiple of it.
pub(crate) const ALIGNMENT: usize = 64;

struct Owned {
    address: *mut u8,
    layout: Layout,
}

// SAFETY: a plain allocation, which any thread may free.
unsafe impl Send for Owned {}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: allocated below with this layout, and freed only here.
        unsafe { dealloc(self.address, self.layout) };
    }
}

/// A segment from the system, or `None` when it has no memory.
pub(crate) fn allocate(bytes: usize) -> Option<Segment> {
    let layout = Layout::from_size_align(bytes.max(1), ALIGNMENT).ok()?;
    // SAFETY: the size is not zero.
    let address = unsafe { alloc(layout) };
    let owned = (!address.is_null()).then_some(Owned { address, layout })?;
    Some(Segment { address: address as usize, bytes, owner: Box::new(owned) })
}

/// The machine's memory, or what the process may have of it.
pub(crate) fn total() -> usize {
    limits().into_iter().flatten().min().unwrap_or(usize::MAX / 2)
}

#[cfg(unix)]
fn limits() -> [Option<usize>; 2] {
    // SAFETY: both calls have no preconditions.
    let (pages, size) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    let machine = usize::try_from(pages).ok().zip(usize::try_from(size).ok()).map(|(p, s)| p * s);
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    [machine, group]
}

#[cfg(not(unix))]
fn limits() -> [Option<usize>; 2] {
    [None, None]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_aligned_and_an_impossible_one_is_none() {
        assert_eq!(allocate(1000).unwrap().address % ALIGNMENT, 0);
        assert!(allocate(isize::MAX as usize - 4096).is_none());
        assert!(total() > 1 << 20);
    }
}
