//! Kernels of Millstream's GPU devices, written once.
//!
//! [`lower`] turns a Command into [`Launch`]es, each with a [`Key`]. [`source`] turns a key into a text for a
//! compiler. Nothing here calls a GPU's interface or a compiler: a backend does both.
//!
//! # The arguments of a kernel
//!
//! They are the same in every dialect. First come the buffers in the order of [`Launch::slots`], each a pointer to
//! bytes. Then comes one struct by value, whose bytes are [`Launch::params`]. Threads of a group have one axis.
//!
//! # Faults
//!
//! A kernel that finds impossible data continues without harm and reports it in the fault record of its batch. A
//! record has [`FAULT_HEADER_WORDS`] words, of which the first becomes 1, and one word per Command, which becomes the
//! code. [`fault_message`] gives the message for a code.

pub mod cache;
mod fault;
mod key;
mod launch;
mod lower;
mod params;
mod program;
mod source;
mod walk;

pub use fault::{FAULT_HEADER_WORDS, INDEX_OUT_OF_RANGE, fault_message, fault_record_bytes};
pub use key::{Key, MAX_CONSTANTS};
pub use launch::{Launch, Limits, Lowered, Slot};
pub use lower::{
    lower, lower_copy, lower_epilogue, lower_gemv, lower_split_k, lower_tensor_cores, supports,
};
pub use params::Params;
pub use program::Program;
pub use source::{Dialect, source, source_of_many};
