//! Synchronisation: a shim over `std` or `loom`, and the few primitives that everything else is
//! built from. Each primitive has loom tests beside it (`RUSTFLAGS="--cfg loom"`).

pub mod affinity;
pub mod fair_pool;
pub mod flag;
pub mod holders;
pub mod loan;
pub mod once_cache;
pub mod return_stack;
pub mod schedule;
pub mod shim;
pub mod task_line;
pub mod timeline;
pub mod watch_list;

pub use affinity::Affinity;
pub use fair_pool::{FairPool, Permits, Slots};
pub use flag::Flag;
pub use holders::Holders;
pub use loan::Loan;
pub use once_cache::{Cached, OnceCache};
pub use return_stack::{Linked, ReturnStack};
pub use task_line::TaskLine;
pub use timeline::{Ticket, Timeline};
pub use watch_list::WatchList;
