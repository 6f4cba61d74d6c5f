//! Branches and loops.
//!
//! A branch takes the place of its node. So does every iteration of a loop that has few of them (`unroll.rs`). Other loops are run by
//! the host, which calls their body as a program of its own (`counted.rs` for Loop, `chunks.rs` for Scan).

mod batched;
mod chunks;
mod collect;
mod counted;
mod map;
mod scan;
mod unroll;

use millstream_graph::Operator;

use crate::Result;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[
    ("If", branch),
    ("Loop", counted::counted),
    ("Scan", scan::scan),
    ("SequenceMap", map::sequence_map),
];

/// The branch takes the place of the node as soon as the condition is known.
fn branch(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let (yes, no) = (node.body("then_branch")?, node.body("else_branch")?);
    operator(node, move |at, inputs| {
        let condition = at.scalar(inputs.tensor(0)?)?.as_bool();
        let chosen = if condition { &yes } else { &no };
        Err(chosen.inline(Vec::new(), inputs))
    })
}
