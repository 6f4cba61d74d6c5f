//! The Metal device of Millstream.
//!
//! **Executed on a driver of our own on Linux, never yet on a Mac.** `docs/metal.md` says what that leaves unproven, and how a
//! Mac's owner can help with one script.
//!
//! Linking this crate is all it takes on Apple's systems: `Device::open("metal")` finds it, and says what is missing where
//! there is no GPU that it can use. Elsewhere this crate is empty.
//!
//! Each stream has a command queue and a shared event, whose value counts its batches. A batch is one command buffer: made,
//! filled and committed inside one call, with unretained references, and one encoder whose dispatches overlap unless their
//! Commands depend on each other. A batch that comes again is a prepared list that is only encoded. What a command buffer
//! may still use is released after its completed handler has run.
//!
//! | environment variable | meaning | default |
//! |---|---|---|
//! | `MILLSTREAM_METAL_QUEUES` | command queues that all streams share; `0`: one for each stream | `0` |
//! | `MILLSTREAM_METAL_REPLAY` | `0`: batches that come again are lowered again | `1` |
//! | `MILLSTREAM_METAL_INDIRECT` | `1`: such batches are indirect command buffers, where the GPU has them | `0` |
//! | `MILLSTREAM_METAL_RESIDENCY` | `0`: no residency sets | `1` |
//! | `MILLSTREAM_METAL_MATRICES` | `0`: products without simdgroup matrices | `1` |
//! | `MILLSTREAM_METAL_ARCHIVES` | `1`: compiled kernels are kept in binary archives, in `MILLSTREAM_CACHE_DIR` | `0` |
//! | `MILLSTREAM_METAL_WORK` | operations of one command buffer at most, for the GPU's watchdog | 2³³ |
//! | `MILLSTREAM_METAL_KEEP_WARM` | `1`: a thread keeps an idle device from giving up its memory | `0` |
//! | `MILLSTREAM_METAL_CAPTURE` | a file, as in `calls.gputrace`, that gets the first batches for Xcode; needs `MTL_CAPTURE_ENABLED=1` | |
//! | `MILLSTREAM_METAL_CAPTURE_BATCHES` | how many batches that are | 20 |
//! | `MILLSTREAM_METAL_LOG` | `1`: what is compiled, and what could not be had, on standard error | `0` |

#![cfg(any(target_vendor = "apple", feature = "driver"))]

#[cfg(all(test, feature = "driver"))]
use millstream_metal_driver as _;

mod archive;
mod backend;
mod builtin;
mod capture;
mod compile;
mod deferred;
mod encode;
mod failure;
mod gpu;
mod indirect;
mod kernels;
mod memory;
mod objects;
mod platform;
mod prepared;
mod probe;
mod queue;
mod residency;
mod settings;
mod system;
mod times;
mod warm;

/// What kernels may count on, on the GPU that there is.
#[doc(hidden)]
pub fn usual_limits() -> millstream_kernels::Limits {
    gpu::limits_found().unwrap_or_else(|_| gpu::limits(10, true))
}

/// Compiles kernels together, for tests that need many.
#[doc(hidden)]
pub fn prepare(keys: &[millstream_kernels::Key]) {
    if let Ok(gpu) = gpu::Gpu::open(0, &millstream_core::Config::default()) {
        gpu.prepare_kernels(keys);
    }
}

/// How many objects of which of Metal's protocols live as long as the process, for tests that count what is left.
#[doc(hidden)]
pub fn kept_objects() -> Vec<(&'static str, usize)> {
    gpu::kept_objects()
}
