//! The CUDA device of Millstream.
//!
//! Linking this crate is all it takes: `Device::open("cuda")` finds it, and says what is missing on a
//! machine without an NVIDIA driver. (A crate that names nothing of it must say
//! `use millstream_cuda as _;`; the `millstream` crate does, with its feature `cuda`.)
//!
//! All libraries of NVIDIA are loaded when a device is opened, never linked. Each stream has a queue
//! with a CUDA stream, a cuBLASLt handle and pinned memory of its own, so that streams share no lock of
//! ours. A batch that comes again is replayed as a CUDA graph. Completion is a word in host memory that
//! the last kernel of every batch writes, so that looking costs a load. It also tells which Commands met
//! impossible data, one by one: they fail, and everything else on the stream is right.
//!
//! | environment variable | meaning | default |
//! |---|---|---|
//! | `MILLSTREAM_CUDA_TF32` | `1`: products of `f32` may round their inputs to TF32 | `0` |
//! | `MILLSTREAM_CUDA_GRAPHS` | `0`: batches that come again are not replayed as graphs | `1` |
//! | `MILLSTREAM_CUDA_OVERLAP` | `0`: no kernel is started before the one before it has ended | `1` |
//! | `MILLSTREAM_CUDA_LOG` | `1`: what is compiled, captured and left to slower ways, on standard error | `0` |
//! | `MILLSTREAM_CACHE_DIR` | the folder of compiled kernels, which nobody else may write to; `off` for none | `millstream/kernels` in the user's cache folder |
//! | `MILLSTREAM_CUDA_LIBRARIES` | folders to look for NVRTC and cuBLASLt in first, separated by `:` | none |

mod backend;
mod blas;
mod builtin;
mod compile;
mod driver;
mod gpu;
mod libraries;
mod platform;
mod settings;

use millstream_core::Result;
use millstream_kernels::{Dialect, Key, Limits, source};

/// What kernels may count on, on a GPU with so many multiprocessors of a data centre's kind.
pub fn usual_limits(processors: u32) -> Limits {
    gpu::limits(1024, 48 << 10, processors)
}

/// Compiles a kernel into the cache on disk, for an architecture such as `sm_90`. Needs NVRTC but no GPU:
/// for images that are built on one machine and run on another.
///
/// # Errors
///
/// No compiler, or what it said.
pub fn precompile(key: &Key, architecture: &str) -> Result<()> {
    libraries::check_compiler(&key.entry())?;
    compile::compile_once(&key.entry(), &source(key, Dialect::Cuda), architecture).map(drop)
}

/// Compiles the kernels that belong to this backend alone; as [`precompile`].
///
/// # Errors
///
/// No compiler, or what it said.
pub fn precompile_builtins(architecture: &str) -> Result<()> {
    libraries::check_compiler("builtin")?;
    compile::compile_once("builtin", builtin::SOURCE, architecture).map(drop)
}
