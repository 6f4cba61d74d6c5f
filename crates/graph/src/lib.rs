//! Models as graphs of operations: loaded without shapes, compiled for those that they are called with.
//!
//! An importer makes a [`Body`] of [operators](Operator). A [`Session`] calls it from any number of threads: for every set of
//! input shapes its operators are expanded to a [`Graph`] of operations, passes make the graph better, and lowering makes a
//! plan of it, which is kept.

mod array;
mod build;
#[doc(hidden)]
pub mod closeness;
mod coalesce;
mod constant;
mod evaluate;
mod expand;
mod file_map;
mod graph;
mod lower;
mod model;
mod model_info;
mod model_value;
mod passes;
mod program;
mod recent_cache;
mod separate;
mod session;
mod standby;
mod trace;
mod view;

pub use array::Array;
pub use constant::Constant;
pub use expand::{Expanded, Expander, Opaque, OpaqueKind, Stop, Value};
pub use file_map::map_file;
pub use graph::{Edge, Edges, Graph, Node, NodeOp, Source};
pub use millstream_core::{Error, Result};
pub use model::{Body, Dim, Operator, OperatorNode, Port, ValueId, ValueType};
pub use model_info::{ModelInfo, NodeInfo, OperatorSet, PortInfo, WeightInfo};
pub use model_value::{Map, MapKeys, MapValues, ModelValue, Strings};
pub use passes::{Pass, Passes};
pub use program::{
    HostArray, HostCall, HostOperator, HostStep, HostValue, Limits, Program, Resume,
};
pub use session::{
    Batched, Batching, BatchingStats, Call, Importer, Inputs, Joinable, NodeTime, Outputs, Session,
    SessionBuilder, SessionStats, Submitted,
};
pub use view::{Sizes, View};

// The tests' device registers itself.
#[cfg(test)]
use millstream_cpu as _;
