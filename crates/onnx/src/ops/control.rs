//! Branches.

use millstream_graph::Operator;

use crate::Result;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[("If", branch)];

/// The branch takes the place of the node as soon as the condition is known.
fn branch(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let (yes, no) = (node.body("then_branch")?, node.body("else_branch")?);
    operator(node, move |at, inputs| {
        let condition = at.scalar(inputs.tensor(0)?)?.as_bool();
        let chosen = if condition { &yes } else { &no };
        Err(chosen.inline(Vec::new(), inputs))
    })
}
