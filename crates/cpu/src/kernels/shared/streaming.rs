//! Streaming stores: they bypass the caches.
//!
//! A plain store first reads the line that it changes. For an output that no cache could keep, that
//! is a third to a half of all traffic for nothing.

use super::simd::Isa;

/// Bytes from which on an output is stored with streaming stores.
const LARGE: usize = 24 << 20;

/// Whether an output of so many bytes is stored with streaming stores.
pub(crate) fn is_large(bytes: usize) -> bool {
    #[cfg(test)]
    if ALWAYS.get() {
        return true;
    }
    bytes >= LARGE
}

#[cfg(test)]
thread_local! {
    static ALWAYS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Runs a test as if every output were large.
#[cfg(test)]
pub(crate) fn always<R>(test: impl FnOnce() -> R) -> R {
    ALWAYS.set(true);
    let result = test();
    ALWAYS.set(false);
    result
}

/// Bytes of results that are computed before they are stored. Streaming stores wait for memory
/// in the same few buffers as loads do, so long bursts of one keep the other waiting.
pub(crate) const BURST: usize = 1024;

const LINE: usize = 64;

/// Copies a dense run with streaming stores. Whoever hands the run to another thread calls [`fence`] first.
///
/// # Safety
///
/// `to` is valid for as many elements, is not part of `from`, and nobody else touches it.
#[inline(always)]
pub(crate) unsafe fn store<T: Copy>(from: &[T], to: *mut T) {
    let head = (to.align_offset(LINE)).min(from.len());
    let per_line = LINE / size_of::<T>();
    let lines = (from.len() - head) / per_line;
    let tail = head + lines * per_line;
    // SAFETY: the parts cover the run; those in between are lines of the cache, aligned as such.
    unsafe {
        to.copy_from_nonoverlapping(from.as_ptr(), head);
        store_lines(Isa::detect(), from.as_ptr().add(head).cast(), to.add(head).cast(), lines);
        let rest = from.len() - tail;
        to.add(tail).copy_from_nonoverlapping(from.as_ptr().add(tail), rest);
    }
}

/// # Safety
///
/// The CPU has this ISA; so many lines are valid on both sides, and `to`
/// begins one.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn store_lines(isa: Isa, from: *const u8, to: *mut u8, lines: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    if isa == Isa::Avx512 {
        // SAFETY: passed on.
        return unsafe { store_wide_lines(from, to, lines) };
    }
    for part in 0..lines * (LINE / size_of::<__m128i>()) {
        // SAFETY: the parts make up the lines; every CPU has these instructions.
        unsafe {
            let value = _mm_loadu_si128(from.cast::<__m128i>().add(part));
            _mm_stream_si128(to.cast::<__m128i>().add(part), value);
        }
    }
}

/// # Safety
///
/// As for [`store_lines`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn store_wide_lines(from: *const u8, to: *mut u8, lines: usize) {
    use std::arch::x86_64::{__m512i, _mm512_loadu_si512, _mm512_stream_si512};
    for line in 0..lines {
        // SAFETY: passed on.
        unsafe {
            let value = _mm512_loadu_si512(from.cast::<__m512i>().add(line));
            _mm512_stream_si512(to.cast::<__m512i>().add(line), value);
        }
    }
}

/// # Safety
///
/// So many lines are valid on both sides.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
unsafe fn store_lines(_: Isa, from: *const u8, to: *mut u8, lines: usize) {
    // SAFETY: passed on.
    unsafe { to.copy_from_nonoverlapping(from, lines * LINE) }
}

/// Asks for the lines of `count` elements that will be read soon. Any address will do.
#[inline(always)]
pub(crate) fn prefetch<T>(first: *const T, count: usize) {
    #[cfg(target_arch = "x86_64")]
    for byte in (0..count * size_of::<T>()).step_by(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction reads nothing that the program could see, and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(first.cast::<i8>().wrapping_add(byte)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (first, count);
}

/// Asks for the lines of `count` elements that will be written soon. Another core that has them gives them up meanwhile, which
/// takes as long as some hundred multiplications. Any address will do.
#[inline(always)]
pub(crate) fn prefetch_write<T>(first: *const T, count: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for byte in (0..count * size_of::<T>()).step_by(LINE) {
        let line = first.addr().wrapping_add(byte);
        // SAFETY: the instruction changes nothing that the program could see, and never faults. A CPU that does not know it takes it for
        // a no-op.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) line, options(nomem, nostack, preserves_flags));
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (first, count);
}

/// Makes all that this thread has stored with streaming stores visible before what it does next.
#[inline(always)]
pub(crate) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every CPU of the architecture has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(test)]
mod tests;
