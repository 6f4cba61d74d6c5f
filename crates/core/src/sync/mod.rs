//! Synchronization: a shim over `std` or `loom`, and the primitives that everything else is built from. Each primitive has loom tests beside it (`RUSTFLAGS="--cfg loom"`).

pub mod affinity;
pub mod checkout;
pub mod fair_pool;
pub mod flag;
pub mod once_cache;
pub mod ref_count;
pub mod reserve_pool;
pub mod return_stack;
pub mod schedule;
pub mod shim;
pub mod timeline;
pub mod waker_queue;
pub mod watch_list;

pub use affinity::Affinity;
pub use checkout::Checkout;
pub use fair_pool::{FairPool, Permits, Slots};
pub use flag::Flag;
pub use once_cache::{Cached, OnceCache};
pub use ref_count::RefCount;
pub use reserve_pool::{ReservePool, Taken};
pub use return_stack::{Linked, ReturnStack};
pub use timeline::{Ticket, Timeline};
pub use waker_queue::WakerQueue;
pub use watch_list::WatchList;
