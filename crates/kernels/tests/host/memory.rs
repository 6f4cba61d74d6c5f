//! Buffers of a run.

use std::alloc::{Layout, alloc, dealloc};

/// Every buffer starts at a multiple of this, as on a device.
pub const ALIGNMENT: usize = 64;

/// Bytes at an aligned address, exactly as many as asked for, so that a sanitizer sees any step beyond.
pub struct Bytes {
    start: *mut u8,
    layout: Layout,
}

impl Bytes {
    pub fn of(content: &[u8]) -> Self {
        let layout = Layout::from_size_align(content.len().max(1), ALIGNMENT).unwrap();
        // SAFETY: the layout has a size above 0.
        let start = unsafe { alloc(layout) };
        assert!(!start.is_null(), "no memory for {layout:?}");
        // SAFETY: at least `content.len()` bytes were just allocated.
        unsafe { std::ptr::copy_nonoverlapping(content.as_ptr(), start, content.len()) };
        Self { start, layout }
    }

    pub fn address(&self) -> usize {
        self.start as usize
    }

    pub fn to_vec(&self, bytes: usize) -> Vec<u8> {
        assert!(bytes <= self.layout.size());
        // SAFETY: `bytes` bytes were initialized at creation, and no kernel runs now.
        unsafe { std::slice::from_raw_parts(self.start, bytes) }.to_vec()
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: allocated with this very layout.
        unsafe { dealloc(self.start, self.layout) };
    }
}
