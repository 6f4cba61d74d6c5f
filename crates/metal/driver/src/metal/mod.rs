//! Metal: objects, and the queues that run what they describe.

mod archive;
mod blit;
mod buffer;
mod capture;
mod commands;
mod counters;
mod device;
mod encoder;
mod event;
mod heap;
mod indirect;
mod library;
mod pass;
mod pipeline;
mod queue;
mod residency;
mod schedule;

pub use device::another_device;

use std::sync::{Mutex, MutexGuard};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// `MTLSize`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}

/// `NSRange`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub location: usize,
    pub length: usize,
}

/// Seconds, as Metal's host times are.
fn now() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
