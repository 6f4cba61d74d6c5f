//! Where boxes of a picture stand.

use std::collections::VecDeque;

/// The place of a box.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Placed {
    /// From the top.
    pub layer: usize,
    /// From the left, within the layer.
    pub column: usize,
}

/// Places boxes, each in the layer below the lowest of those that have a line to it, and near the one above it. Boxes of a cycle, which
/// no model that can be run has, are at the top.
pub(super) fn place(boxes: usize, lines: &[(usize, usize)]) -> Vec<Placed> {
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); boxes];
    let mut waits_for = vec![0usize; boxes];
    for &(from, to) in lines {
        below[from].push(to);
        waits_for[to] += 1;
    }
    let mut placed = vec![Placed::default(); boxes];
    let mut wish = vec![0usize; boxes];
    let mut order = Vec::with_capacity(boxes);
    let mut ready: VecDeque<usize> = (0..boxes).filter(|&at| waits_for[at] == 0).collect();
    while let Some(at) = ready.pop_front() {
        order.push(at);
        for &next in &below[at] {
            placed[next].layer = placed[next].layer.max(placed[at].layer + 1);
            waits_for[next] -= 1;
            if waits_for[next] == 0 {
                ready.push_back(next);
            }
        }
    }
    order.extend((0..boxes).filter(|&at| waits_for[at] > 0));
    let layers = placed.iter().map(|place| place.layer + 1).max().unwrap_or(0);
    let mut rows: Vec<Vec<usize>> = vec![Vec::new(); layers];
    order.iter().for_each(|&at| rows[placed[at].layer].push(at));
    for row in &mut rows {
        row.sort_by_key(|&at| wish[at]);
        let mut free = 0;
        for &at in row.iter() {
            let column = free.max(wish[at]);
            placed[at].column = column;
            free = column + 1;
            below[at].iter().for_each(|&next| wish[next] = column);
        }
    }
    placed
}
