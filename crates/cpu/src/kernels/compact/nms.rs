//! Boxes without those that overlap a better one.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::OnceLock;

use millstream_core::{Operand, RawBuffer};

use super::{Numbers, store_count};
use crate::kernels::shared::block::base;
use crate::kernels::shared::fault::{Result, try_share};
use crate::kernels::shared::parallel::{Parallel, Shared};
use crate::kernels::shared::scratch::{collected, push};

/// What is selected.
#[derive(Clone, Copy)]
pub(crate) struct NmsParams {
    pub most: usize,
    pub overlap: f32,
    pub score: Option<f32>,
    pub centered: bool,
}

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(crate) unsafe fn non_max_suppression(
    params: NmsParams,
    selected: &Operand<RawBuffer>,
    count: &Operand<RawBuffer>,
    [boxes, scores]: [&Operand<RawBuffer>; 2],
    parallel: &dyn Parallel,
) -> Result {
    let &[batches, classes, total] = scores.layout.shape() else { return Ok(()) };
    let most = params.most.min(total);
    let pairs = batches * classes;
    // SAFETY: passed on.
    let source = unsafe { Source::new(boxes, scores) };
    let found = collected((0..pairs).map(|_| OnceLock::new()))?;
    let work = total.saturating_mul(most.min(64) + 1);
    try_share(parallel, pairs, work, |range: Range<usize>| {
        for pair in range {
            // SAFETY: nobody writes the inputs.
            let taken = unsafe { source.select(params, pair / classes, pair % classes)? };
            // Each pair is looked at once.
            let _ = found[pair].set(taken);
        }
        Ok(())
    })?;
    // SAFETY: passed on.
    let numbers = unsafe { Numbers::of(selected, 0) };
    let column = selected.layout.strides()[1];
    let mut row = 0;
    let mut store = |triple: [usize; 3]| {
        for (at, number) in triple.into_iter().enumerate() {
            // SAFETY: there are no more rows than this many for each pair.
            unsafe { numbers.set(at * column, row, number) };
        }
        row += 1;
    };
    let mut valid = 0;
    for (pair, found) in found.iter().enumerate() {
        let found = found.get().map_or(&[][..], Vec::as_slice);
        found.iter().for_each(|&item| store([pair / classes, pair % classes, item]));
        valid += found.len();
    }
    (valid..pairs * most).for_each(|_| store([0; 3]));
    // SAFETY: passed on.
    unsafe { store_count(count, valid) };
    Ok(())
}

/// Where boxes and scores lie.
struct Source {
    boxes: Shared<f32>,
    box_strides: [usize; 3],
    scores: Shared<f32>,
    score_strides: [usize; 3],
    count: usize,
}

impl Source {
    unsafe fn new(boxes: &Operand<RawBuffer>, scores: &Operand<RawBuffer>) -> Self {
        let strides = |operand: &Operand<RawBuffer>| {
            std::array::from_fn(|axis| operand.layout.strides()[axis])
        };
        // SAFETY: passed on.
        let [first, second] = unsafe { [base(boxes), base(scores)] };
        Source {
            boxes: Shared::new(first),
            box_strides: strides(boxes),
            scores: Shared::new(second),
            score_strides: strides(scores),
            count: scores.layout.shape()[2],
        }
    }

    /// The boxes of one class of one batch, the best first.
    ///
    /// # Safety
    ///
    /// There are such a batch and class, and nobody writes them.
    unsafe fn select(&self, params: NmsParams, batch: usize, class: usize) -> Result<Vec<usize>> {
        let [first, second, step] = self.score_strides;
        let mut best: Vec<(f32, usize)> = Vec::new();
        for item in 0..self.count {
            let at = batch * first + class * second + item * step;
            // SAFETY: passed on.
            let score = unsafe { self.scores.get().add(at).read() };
            if !score.is_nan() && params.score.is_none_or(|least| score > least) {
                push(&mut best, (score, item))?;
            }
        }
        let order = |a: &(f32, usize), b: &(f32, usize)| {
            b.0.partial_cmp(&a.0).unwrap_or(Ordering::Equal).then(a.1.cmp(&b.1))
        };
        best.sort_unstable_by(order);
        let (mut taken, mut kept) = (Vec::new(), Vec::<Corners>::new());
        for (_, item) in best {
            if taken.len() >= params.most {
                break;
            }
            // SAFETY: passed on.
            let corners = unsafe { self.corners(params.centered, batch, item) };
            if !kept.iter().any(|other| other.overlaps(&corners, params.overlap)) {
                push(&mut taken, item)?;
                push(&mut kept, corners)?;
            }
        }
        Ok(taken)
    }

    unsafe fn corners(&self, centered: bool, batch: usize, item: usize) -> Corners {
        let [first, second, step] = self.box_strides;
        let start = batch * first + item * second;
        // SAFETY: passed on.
        let [a, b, c, d] =
            std::array::from_fn(|i| unsafe { self.boxes.get().add(start + i * step).read() });
        if centered {
            let (wide, high) = (c / 2.0, d / 2.0);
            return Corners { left: a - wide, low: b - high, right: a + wide, high: b + high };
        }
        Corners { left: lower(b, d), low: lower(a, c), right: higher(b, d), high: higher(a, c) }
    }
}

/// The lower of two. Of NaN every device makes the same.
fn lower(a: f32, b: f32) -> f32 {
    if b < a { b } else { a }
}

fn higher(a: f32, b: f32) -> f32 {
    if a < b { b } else { a }
}

#[derive(Clone, Copy)]
struct Corners {
    left: f32,
    low: f32,
    right: f32,
    high: f32,
}

impl Corners {
    fn area(&self) -> f32 {
        (self.right - self.left) * (self.high - self.low)
    }

    /// Whether both share more than a part of their union. Boxes without an area share nothing.
    fn overlaps(&self, other: &Self, limit: f32) -> bool {
        let both = Corners {
            left: higher(self.left, other.left),
            low: higher(self.low, other.low),
            right: lower(self.right, other.right),
            high: lower(self.high, other.high),
        };
        if both.right <= both.left || both.high <= both.low {
            return false;
        }
        let (own, its, shared) = (self.area(), other.area(), both.area());
        let union = own + its - shared;
        let real = shared > 0.0 && own > 0.0 && its > 0.0 && union > 0.0;
        real && shared / union > limit
    }
}
