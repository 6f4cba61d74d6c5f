//! Stores that go past the caches.
//!
//! A plain store first reads the line that it changes. For an output that no cache could keep, that
//! is a third to a half of all traffic for nothing.

/// Bytes from which on an output is stored past the caches.
pub(super) const LARGE: usize = 24 << 20;

/// Copies a dense run past the caches. Whoever hands the run to another thread calls [`fence`] first.
///
/// # Safety
///
/// `to` is valid for as many elements, is not part of `from`, and nobody else touches it.
#[inline(always)]
pub(super) unsafe fn store<T: Copy>(from: &[T], to: *mut T) {
    const LINE: usize = 64;
    let head = (to.align_offset(LINE)).min(from.len());
    let per_line = LINE / size_of::<T>();
    let lines = (from.len() - head) / per_line;
    let tail = head + lines * per_line;
    // SAFETY: the parts cover the run; those in between are lines of the cache, aligned as such.
    unsafe {
        to.copy_from_nonoverlapping(from.as_ptr(), head);
        for line in 0..lines {
            let first = head + line * per_line;
            store_line(from.as_ptr().add(first).cast(), to.add(first).cast());
        }
        let rest = from.len() - tail;
        to.add(tail).copy_from_nonoverlapping(from.as_ptr().add(tail), rest);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn store_line(from: *const u8, to: *mut u8) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    for part in 0..4 {
        // SAFETY: 64 bytes are valid on both sides, and `to` begins a line.
        unsafe {
            let value = _mm_loadu_si128(from.cast::<__m128i>().add(part));
            _mm_stream_si128(to.cast::<__m128i>().add(part), value);
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
unsafe fn store_line(from: *const u8, to: *mut u8) {
    // SAFETY: 64 bytes are valid on both sides.
    unsafe { to.copy_from_nonoverlapping(from, 64) }
}

/// Makes all that this thread has stored past the caches visible before what it does next.
#[inline(always)]
pub(super) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every machine of the architecture has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_any_place_and_length_arrive_whole() {
        for first in [0, 1, 5, 16] {
            for count in [0, 1, 15, 16, 17, 100, 513] {
                let from: Vec<u32> = (1..=count).collect();
                let mut to = vec![0u32; 600];
                // SAFETY: the vector has room for the run from there on.
                unsafe { store(&from, to.as_mut_ptr().add(first)) };
                fence();
                assert_eq!(to[first..first + from.len()], from);
                assert!(to[..first].iter().chain(&to[first + from.len()..]).all(|&x| x == 0));
            }
        }
    }
}
