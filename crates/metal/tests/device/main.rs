//! The Metal device on the driver: what goes wrong, order, and the end of a process.
//!
//! The GPU belongs to the process, and so do the faults that the driver is set to. So every test starts the program again for itself, and no rule
//! of Metal's may be broken in it.

mod failures;
mod kit;
mod lifetime;
mod order;
mod probe;
mod switches;
