//! Our own types over the driver's functions: each call is checked, and each handle has one owner.
//!
//! Everything here needs the context to be current on the calling thread; see [`Context`].

mod context;
mod event;
mod graph;
mod memory;
mod module;
mod status;
mod stream;

pub(crate) use context::Context;
pub(crate) use event::Event;
pub(crate) use graph::GraphExec;
pub(crate) use memory::{CudaSegment, DeviceMemory, Pinned};
pub(crate) use module::{Function, Module};
pub(crate) use status::check;
pub(crate) use stream::Stream;
