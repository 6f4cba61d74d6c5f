//! What runs kernels: a compiler for Metal texts, and fibers.

mod compile;
mod fibers;
mod jitter;
mod second;
mod signature;
mod strict;
mod toolchain;

pub use compile::{Kernel, Program, check, compile};
pub use jitter::Jitter;
pub use second::at_once;
