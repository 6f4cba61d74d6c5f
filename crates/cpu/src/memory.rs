//! Segments of host memory.

use std::alloc::{Layout, alloc, dealloc};

use millstream_core::Segment;

/// A cache line and the widest vector; the base of every block is a multiple of it.
pub(crate) const ALIGNMENT: usize = 64;

/// A large page, on most machines.
const PAGE: usize = 2 << 20;

/// Segments from this size on are made of large pages where the system has them, of which a machine
/// remembers far more memory at a time than of small ones.
const LARGE: usize = 2 * PAGE;

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
    let alignment = if bytes >= LARGE { PAGE } else { ALIGNMENT };
    let layout = Layout::from_size_align(bytes.max(1), alignment).ok()?;
    // SAFETY: the size is not zero.
    let address = unsafe { alloc(layout) };
    let owned = (!address.is_null()).then_some(Owned { address, layout })?;
    if bytes >= LARGE {
        ask_for_large_pages(address, bytes);
    }
    Some(Segment { address: address as usize, bytes, owner: Box::new(owned) })
}

#[cfg(target_os = "linux")]
fn ask_for_large_pages(address: *mut u8, bytes: usize) {
    // What is left over at the end stays with small pages, or more would be used than asked for.
    let bytes = bytes / PAGE * PAGE;
    // SAFETY: the range belongs to an allocation that nobody else knows yet, and the advice does not
    // change what is in it. A system that does not take it is none the worse.
    unsafe { libc::madvise(address.cast(), bytes, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn ask_for_large_pages(_: *mut u8, _: usize) {}

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
