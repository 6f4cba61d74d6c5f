//! Memory: segments of the device by address, and memory that host and device reach.

mod host;
mod page;
mod segments;
mod staging;

pub(crate) use host::{HostBinding, HostMemory, device_address, kept_addresses};
pub use page::{MAX_IN_FLIGHT, Page};
pub use segments::Segments;
pub(crate) use segments::{Registered, SegmentView};
pub(crate) use staging::{Staging, StagingLayout, StagingPool, transfers};
