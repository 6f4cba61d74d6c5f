//! Scratch memory of kernels: one store for all of it.
//!
//! A thread that executes Commands keeps its buffers from one Command to the next ([`thread`]), so that nothing is
//! allocated on the way. There may be many threads, and most of them idle. So a thread has small buffers for as long as it
//! executes a batch only ([`leased`]; workers that help keep theirs), and large ones go back to the [`store`], where the next thread finds them. What all threads and the store keep
//! together is bounded, and all buffers are counted in the statistics of the device.
//!
//! An axis that repeats one element may be of any size, so scratch memory is bounded by the machine and not by the
//! operands. What cannot be had is a fault of the Command. The same holds for temporary [`lists`].

mod leased;
mod lists;
mod store;
mod thread;

#[cfg(test)]
mod tests;

pub(crate) use leased::{free_idle, lease};
pub(crate) use lists::{collected, filled, push, reserve};
pub(crate) use store::STORE;
pub(crate) use thread::{Content, Slot, trim, with_scratch, with_slot};
