//! What runs kernels: a compiler for Metal texts, and fibers.

mod compile;
mod fibers;
mod jitter;
mod signature;

pub use compile::{Kernel, Program, compile};
pub use jitter::Jitter;
