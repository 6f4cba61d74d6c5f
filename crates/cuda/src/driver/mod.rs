//! Our own types over the driver's functions: each call is checked, and each handle has one owner.
//!
//! Everything here needs the context to be current on the calling thread; see [`Context`].

mod context;
mod event;
mod failure;
mod graph;
mod memory;
mod module;
mod stream;

pub(crate) use context::Context;
pub(crate) use event::Event;
pub(crate) use failure::{Failure, check};
pub(crate) use graph::Graph;
pub(crate) use memory::{DeviceMemory, Pinned};
pub(crate) use module::{Function, Module};
pub(crate) use stream::Stream;
