//! ONNX models for Millstream: the importer, and nothing else.
//!
//! [`open`] reads a file into a [`Body`] of operators, which a [`Session`](millstream_graph::Session) compiles and runs. Each operator
//! knows how to expand itself to operations when the shapes of its inputs are known; `ops` has one file per family.

mod attributes;
mod describe;
mod dtypes;
mod external;
#[allow(missing_docs, missing_debug_implementations, clippy::all)]
#[rustfmt::skip]
mod generated;
mod import;
mod inputs;
mod model;
mod node;
mod ops;
mod order;
mod registry;
mod tensor;
#[cfg(test)]
mod testing;
mod value_file;
mod value_types;

pub use describe::{describe, operators};
pub use import::{from_bytes, open};
pub use millstream_core::{Error, Result};
pub use millstream_graph::Body;
pub use value_file::read_value;

use generated as proto;
