//! Padding and cropping.

use millstream_core::{PadMode, PadParams};

use super::scalar;
use crate::dense::places;
use crate::{Dense, Expected};

pub(super) fn apply(params: &PadParams, shape: &[usize], input: &Dense) -> Vec<Expected> {
    let element = |place: &Vec<usize>| {
        let source: Option<Vec<usize>> = (0..place.len())
            .map(|axis| {
                let (before, after) = (params.before[axis], params.after[axis]);
                // Cropping comes first, and what is left is continued.
                let first = (-before).max(0);
                let left = input.shape[axis] as i64 - first - (-after).max(0);
                let at = place[axis] as i64 - before.max(0);
                continued(params.mode, at, left).map(|at| (first + at) as usize)
            })
            .collect();
        match (source, params.mode) {
            (Some(source), _) => Expected::Exact(input.at(&source)),
            (None, PadMode::Constant(value)) => Expected::Exact(scalar(value, input.dtype)),
            (None, other) => unreachable!("{other:?} always shows an element"),
        }
    };
    places(shape).iter().map(element).collect()
}

/// Walks from a coordinate outside `0..size` back inside, one step at a time.
fn continued(mode: PadMode, mut at: i64, size: i64) -> Option<i64> {
    while !(0..size).contains(&at) {
        at = match mode {
            PadMode::Constant(_) => return None,
            PadMode::Edge => at.clamp(0, size - 1),
            PadMode::Wrap if at < 0 => at + size,
            PadMode::Wrap => at - size,
            PadMode::Reflect if size == 1 => 0,
            PadMode::Reflect if at < 0 => -at,
            PadMode::Reflect => 2 * (size - 1) - at,
        };
    }
    Some(at)
}
