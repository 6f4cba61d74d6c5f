//! What every GPU device of Millstream needs, whatever its platform.
//!
//! A platform implements [`Platform`]: memory, kernels, a queue that takes launch lists, capture and replay, a count
//! of completed batches, an order between queues. [`GpuBackend`] makes a device of it. Nothing here calls a driver,
//! so everything also runs on the host, with the platform of [`fake`].
//!
//! # What happens to a batch
//!
//! 1. *Order.* The queue waits for the queues that the batch waits for ([`Platform::order`]).
//! 2. *Lookup.* Operations, layouts and addresses of the batch are written as words. A batch with the same words as
//!    an earlier one is replayed ([`Platform::replay`]); nothing is lowered, looked up or allocated for it. The first
//!    occurrence is only launched; the second is captured ([`Platform::capture`]).
//! 3. *Lowering.* Each Command becomes launches of kernels, products of the platform's library, or copies: a
//!    [`LaunchList`]. Operands are places in segments ([`Binding`]), so that a platform can bind buffer objects. A
//!    Command that cannot be lowered fails alone.
//! 4. *Launch.* The list is given to the queue ([`Platform::launch`]). The batch is in flight until a thread has seen
//!    it complete.
//! 5. *Retire.* The first thread that sees finished batches (a waiting thread, the watcher, or a thread that submits)
//!    retires them in order: it resolves each Command as good or failed, copies staged downloads, and advances the
//!    stream's progress.
//!
//! # Rooms
//!
//! | room | what lives there |
//! |---|---|
//! | `platform.rs` | the trait, and how it names memory |
//! | `failure.rs` | calls that failed, and devices that are lost by them |
//! | `backend.rs` | the device, and what its queues share |
//! | `queue/` | submitting, what is in flight, taking it off, waiting |
//! | `lowering/` | from Commands to launch lists: kernels, products, transfers; what may start early |
//! | `replay/` | which batches are the same, and what was captured of them |
//! | `memory/` | segments by address, completion pages, staging memory, leased host memory |
//! | `watcher.rs` | the thread that wakes parked threads and tasks |
//! | `fake/` | a platform on the host, for tests: queues are threads that lose time by a seed |
//!
//! # Who owns what
//!
//! A batch in flight owns its staging memory, and everything that was replaced while the batch may still use it
//! (`keep`). All of that is dropped when the batch is retired, before its progress shows. Captured lists own their
//! staging memory and scratch memory, and keep leased host memory at its address. The [`Platform::Encoder`] belongs
//! to the submitting thread, by a lock.

mod backend;
mod debug;
pub mod environment;
mod exit_gate;
mod failure;
pub mod fake;
pub mod fenced;
mod lowering;
mod memory;
mod platform;
mod queue;
mod replay;
mod watcher;

pub use backend::{GpuBackend, Options};
#[cfg(not(loom))]
pub use exit_gate::before_exit;
pub use failure::{DeviceStatus, Failure};
pub use lowering::{Item, LaunchFailure, LaunchList, ProductOperands};
pub use memory::{MAX_IN_FLIGHT, Page, Segments};
pub use platform::{Binding, HostVisible, Memory, Platform};
