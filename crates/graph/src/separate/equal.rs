//! Whether two graphs compute the same with the same operations.

use std::collections::HashSet;

use super::Obstacle;
use crate::constant::{Constant, Folder, Recipe};
use crate::graph::{Edge, Graph, Source};

/// Constants up to so many bytes are compared by their contents.
const COMPARED_BYTES: usize = 1 << 20;

type Ends<'a> = (&'a Graph, &'a [Edge]);

/// Checks that the outputs of two graphs are computed alike: by the same operations, from the same inputs and constants.
pub(super) fn check(
    (part, parts): Ends<'_>,
    (single, singles): Ends<'_>,
    folder: &Folder,
) -> Result<(), Obstacle> {
    if parts.len() != singles.len() {
        return Err(Obstacle::of("a batch has other outputs than a call"));
    }
    let mut open: Vec<(Edge, Edge)> = parts.iter().copied().zip(singles.iter().copied()).collect();
    let mut seen: HashSet<(Edge, Edge)> = open.iter().copied().collect();
    while let Some((a, b)) = open.pop() {
        match (part.source(a), single.source(b)) {
            (Source::Input(a), Source::Input(b)) if a == b => {}
            (Source::Constant(x), Source::Constant(y)) if same_constant(x, y, folder) => {}
            (&Source::Node(x, of_x), &Source::Node(y, of_y)) => {
                let (x, y) = (&part.nodes()[x], &single.nodes()[y]);
                if of_x != of_y || x.op != y.op || x.inputs.len() != y.inputs.len() {
                    let (batched, alone) = (x.op.name(), y.op.name());
                    let how = if batched == alone { "with other parameters" } else { batched };
                    let text = format!(
                        "a batch computes {alone} of {} differently: {how}",
                        single.spec(b)
                    );
                    return Err(Obstacle::at(y, text));
                }
                for pair in x.inputs.iter().copied().zip(y.inputs.iter().copied()) {
                    if seen.insert(pair) {
                        open.push(pair);
                    }
                }
            }
            (_, Source::Constant(_)) => {
                let text = format!("a constant {} has another value in a batch", single.spec(b));
                return Err(Obstacle::of(text));
            }
            (_, Source::Node(node, _)) => {
                let node = &single.nodes()[*node];
                let text =
                    format!("a batch does not compute {} of {}", node.op.name(), single.spec(b));
                return Err(Obstacle::at(node, text));
            }
            (_, Source::Input(input)) => {
                return Err(Obstacle::of(format!("a batch uses input {input} differently")));
            }
        }
    }
    Ok(())
}

/// Whether two constants have the same value: the same contents, or made alike of the same.
pub(crate) fn same_constant(x: &Constant, y: &Constant, folder: &Folder) -> bool {
    let mut open = vec![(x.clone(), y.clone())];
    let mut seen: HashSet<(u64, u64)> = HashSet::new();
    while let Some((x, y)) = open.pop() {
        if x.number() == y.number() || !seen.insert((x.number(), y.number())) {
            continue;
        }
        if x.spec() != y.spec() {
            return false;
        }
        let small = x.spec().layout().is_ok_and(|layout| layout.dense_bytes() <= COMPARED_BYTES);
        if small && let (Ok(a), Ok(b)) = (x.array(folder), y.array(folder)) {
            if a.bytes() != b.bytes() {
                return false;
            }
            continue;
        }
        match (x.recipe(), y.recipe()) {
            (
                Recipe::Computed { op: a, inputs: of_a, output: from_a },
                Recipe::Computed { op: b, inputs: of_b, output: from_b },
            ) if a == b && from_a == from_b && of_a.len() == of_b.len() => {
                open.extend(of_a.iter().cloned().zip(of_b.iter().cloned()));
            }
            _ => return false,
        }
    }
    true
}
