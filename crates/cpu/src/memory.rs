//! Segments of host memory.

use std::alloc::{Layout, alloc, dealloc};

use millstream_core::Segment;

/// A cache line and the widest vector; the base of every block is a multiple of it.
pub(crate) const ALIGNMENT: usize = 64;

/// The size of a large page of the common architectures.
const HUGE_PAGE: usize = 2 << 20;

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
    let alignment = if bytes >= HUGE_PAGE { HUGE_PAGE } else { ALIGNMENT };
    let layout = Layout::from_size_align(bytes.max(1), alignment).ok()?;
    // SAFETY: the size is not zero.
    let address = unsafe { alloc(layout) };
    let owned = (!address.is_null()).then_some(Owned { address, layout })?;
    prefer_huge_pages(address, bytes);
    Some(Segment { address: address as usize, bytes, host: None, owner: Box::new(owned) })
}

/// Asks the system to back what is large with large pages: matrices that are read in many places at
/// once need more small ones than the processor remembers the addresses of.
pub(crate) fn prefer_huge_pages(address: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    {
        let skipped = address.align_offset(HUGE_PAGE);
        let whole = bytes.saturating_sub(skipped) / HUGE_PAGE * HUGE_PAGE;
        if whole > 0 {
            // SAFETY: the range lies inside an allocation of the caller. This is advice: contents
            // stay, and a system that does not take it says so in the result, which changes nothing.
            unsafe { libc::madvise(address.add(skipped).cast(), whole, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (address, bytes);
}

/// What is taken at most unless a limit is set: three quarters of [`total`]. The rest is for what the process and
/// others need beside tensors; without it the system ends the process before there is an error to return.
pub(crate) fn default_limit() -> usize {
    total() / 4 * 3
}

/// The machine's memory, or what the process may have of it.
pub(crate) fn total() -> usize {
    [machine(), control_group()].into_iter().flatten().min().unwrap_or(usize::MAX / 2)
}

#[cfg(unix)]
fn machine() -> Option<usize> {
    // SAFETY: both calls have no preconditions.
    let (pages, size) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    let (pages, size) = (usize::try_from(pages).ok()?, usize::try_from(size).ok()?);
    Some(pages.saturating_mul(size))
}

#[cfg(not(unix))]
fn machine() -> Option<usize> {
    None
}

/// The least that the process's control group and those above it may have, where there is one.
fn control_group() -> Option<usize> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    limit_files(&groups)
        .filter_map(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok())
        .min()
}

/// The files that may hold a limit, by the text of `/proc/self/cgroup`. Inside a container the process's own group is
/// often mounted as the root, whatever the text says, so the root is always one of them.
fn limit_files(groups: &str) -> impl Iterator<Item = String> {
    groups.lines().chain(["0::/", "0:memory:/"]).flat_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next(), fields.next());
        let place = match controllers {
            Some("") => Some(("/sys/fs/cgroup", "memory.max")),
            Some(list) if list.split(',').any(|name| name == "memory") => {
                Some(("/sys/fs/cgroup/memory", "memory.limit_in_bytes"))
            }
            _ => None,
        };
        fn above<'a>(path: &&'a str) -> Option<&'a str> {
            path.rsplit_once('/').map(|(above, _)| above)
        }
        let paths = std::iter::successors(path.map(|path| path.trim_end_matches('/')), above);
        paths.filter_map(move |path| place.map(|(root, file)| format!("{root}{path}/{file}")))
    })
}

#[cfg(test)]
mod tests;
