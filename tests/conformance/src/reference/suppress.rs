//! Boxes without those that overlap a better one.

use crate::{Dense, Expected, Value};

fn lower(a: f32, b: f32) -> f32 {
    if b < a { b } else { a }
}

fn higher(a: f32, b: f32) -> f32 {
    if a < b { b } else { a }
}

/// The corners of a box: lower x and y, higher x and y.
fn corners(numbers: [f32; 4], centered: bool) -> [f32; 4] {
    let [a, b, c, d] = numbers;
    if centered {
        let (wide, high) = (c / 2.0, d / 2.0);
        return [a - wide, b - high, a + wide, b + high];
    }
    [lower(b, d), lower(a, c), higher(b, d), higher(a, c)]
}

/// Every step is rounded to `f32`, so that all devices agree on what lies at the limit.
fn overlaps(a: [f32; 4], b: [f32; 4], limit: f32) -> bool {
    let (left, right) = (higher(a[0], b[0]), lower(a[2], b[2]));
    let (low, high) = (higher(a[1], b[1]), lower(a[3], b[3]));
    let area = |corners: [f32; 4]| (corners[2] - corners[0]) * (corners[3] - corners[1]);
    let shared = (right - left) * (high - low);
    let union = area(a) + area(b) - shared;
    let real = right > left && high > low && shared > 0.0;
    real && area(a) > 0.0 && area(b) > 0.0 && union > 0.0 && shared / union > limit
}

pub(super) fn apply(
    most: usize,
    limit: f32,
    score: Option<f32>,
    centered: bool,
    inputs: &[Dense],
) -> Vec<Expected> {
    let (boxes, scores) = (&inputs[0], &inputs[1]);
    let (classes, count) = (scores.shape[1], scores.shape[2]);
    let mut selected: Vec<[usize; 3]> = Vec::new();
    for (pair, row) in (0..scores.shape[0] * classes).map(|pair| (pair, pair * count)) {
        let corners = |at: usize| {
            let first = (pair / classes * count + at) * 4;
            let number = |i: usize| boxes.values[first + i].as_f64() as f32;
            corners([number(0), number(1), number(2), number(3)], centered)
        };
        let value = |at: usize| scores.values[row + at].as_f64() as f32;
        let wanted =
            |at: &usize| !value(*at).is_nan() && score.is_none_or(|score| value(*at) > score);
        let mut order: Vec<usize> = (0..count).filter(wanted).collect();
        // A stable sort keeps the lower index first among equals.
        order.sort_by(|&a, &b| value(b).partial_cmp(&value(a)).expect("numbers"));
        let mut taken: Vec<usize> = Vec::new();
        for at in order {
            if taken.len() == most.min(count) {
                break;
            }
            if taken.iter().all(|&other| !overlaps(corners(other), corners(at), limit)) {
                taken.push(at);
            }
        }
        selected.extend(taken.iter().map(|&at| [pair / classes, pair % classes, at]));
    }
    let room = scores.shape[0] * classes * most.min(count);
    let row = |at: usize| selected.get(at).copied().unwrap_or_default();
    let mut numbers: Vec<usize> = (0..room).flat_map(row).collect();
    numbers.push(selected.len());
    numbers.into_iter().map(|number| Expected::Exact(Value::Int(number as i128))).collect()
}
