//! The embedded CPU device of Millstream: a real asynchronous device, so that everything above it
//! behaves the same without a GPU.
//!
//! Linking this crate is all it takes: `Device::cpu()` finds it. (A crate that names nothing of it must
//! say `use millstream_cpu as _;`; the `millstream` crate does.)
//!
//! A stream's batch runs on the thread that waits for it, or on a worker when nobody does. At most as
//! many batches run at once as there are cores; further callers wait in order of arrival. A single
//! caller gets the other cores for its large commands. Results do not depend on any of this: they have
//! the same bits for any number of threads and streams.

mod admission;
mod backend;
mod callers;
mod dependents;
mod engine;
mod helpers;
mod idle_workers;
pub mod kernels;
mod latch;
mod memory;
mod parallel_for;
pub mod peak;
mod queue;
mod shares;
mod work_budget;
