//! Trees: classifiers and regressors.

use std::collections::BTreeSet;

use millstream_core::DType;
use millstream_graph::{Array, HostValue, Operator};

use super::super::common::refusal;
use super::super::host::{HostInputs, host_operator};
use super::forest::{Aggregate, Forest, Number, Trees};
use super::forest_attributes::{numbers, of_lists, of_tensors};
use super::labels::Labels;
use super::post::{PostTransform, Second};
use crate::Result;
use crate::node::NodeDef;
use crate::registry::Table;

pub(super) const TABLE: Table = &[
    ("TreeEnsemble", ensemble),
    ("TreeEnsembleClassifier", classifier),
    ("TreeEnsembleRegressor", regressor),
];

/// The same trees for both kinds of numbers: features are compared as what they are.
struct Both {
    narrow: Forest<f32>,
    wide: Forest<f64>,
}

impl Both {
    fn new(trees: &Trees) -> Result<Self> {
        Ok(Self { narrow: Forest::new(trees)?, wide: Forest::new(trees)? })
    }
}

/// The rows of an input: one where it has one axis.
fn rows(array: &Array, features: usize) -> Result<(usize, usize)> {
    let (rows, columns) = match array.shape() {
        [columns] => (1, *columns),
        [rows, columns] => (*rows, *columns),
        shape => return Err(refusal(format!("features of shape {shape:?}"))),
    };
    if columns < features || columns == 0 {
        return Err(refusal(format!("{columns} features; the trees look at {features}")));
    }
    Ok((rows, columns))
}

/// Scores of all rows as `f64`, which hold both kinds of numbers, and which of them are there.
struct Scores {
    values: Vec<f64>,
    found: Vec<bool>,
    rows: usize,
}

fn scores(inputs: &HostInputs<'_>, both: &Both, aggregate: Aggregate) -> Result<Scores> {
    let array = inputs.array(0)?;
    let (rows, columns) = rows(&array, both.wide.features())?;
    fn of<T: Number>(
        inputs: &HostInputs<'_>,
        forest: &Forest<T>,
        (rows, columns): (usize, usize),
        values: &[T],
        aggregate: Aggregate,
    ) -> Result<Scores> {
        let mut scores = inputs.filled(rows, forest.targets(), T::ZERO)?;
        let mut found = inputs.filled(rows, forest.targets(), false)?;
        forest.score(values, columns, aggregate, &mut scores, &mut found);
        let mut values = inputs.room(rows, forest.targets())?;
        values.extend(scores.into_iter().map(Number::to_f64));
        Ok(Scores { values, found, rows })
    }
    let sizes = (rows, columns);
    match array.dtype() {
        DType::F64 => of(inputs, &both.wide, sizes, &array.to_vec()?, aggregate),
        DType::F32 => of(inputs, &both.narrow, sizes, &array.to_vec()?, aggregate),
        _ => {
            let values = array.to_f64s()?.into_iter().map(|value| value as f32);
            of(inputs, &both.narrow, sizes, &values.collect::<Vec<f32>>(), aggregate)
        }
    }
}

fn regressor(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let targets = node.attributes.int_or("n_targets", 1)?;
    let Ok(targets) = usize::try_from(targets) else {
        return Err(refusal(format!("{targets} targets")));
    };
    let aggregate = match node.attributes.string_or("aggregate_function", "SUM")? {
        "SUM" => Aggregate::Sum,
        "AVERAGE" => Aggregate::Average,
        "MIN" => Aggregate::Min,
        "MAX" => Aggregate::Max,
        other => return Err(refusal(format!("aggregate_function {other:?}"))),
    };
    let post = PostTransform::of(node.attributes.string_or("post_transform", "NONE")?)?;
    let base = numbers(node, "base_values")?;
    let trees = Both::new(&of_lists(node, "target", targets)?)?;
    host_operator(node, move |inputs| combined(&inputs, &trees, aggregate, post, &base, false))
}

fn ensemble(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let aggregate = match node.attributes.int_or("aggregate_function", 1)? {
        0 => Aggregate::Average,
        1 => Aggregate::Sum,
        2 => Aggregate::Min,
        3 => Aggregate::Max,
        other => return Err(refusal(format!("aggregate_function {other}"))),
    };
    let post = PostTransform::of_number(node.attributes.int_or("post_transform", 0)?)?;
    let trees = Both::new(&of_tensors(node)?)?;
    host_operator(node, move |inputs| combined(&inputs, &trees, aggregate, post, &[], true))
}

/// The scores of every row, combined. The result has the type of the features if `own_type`, else `f32`.
fn combined(
    inputs: &HostInputs<'_>,
    trees: &Both,
    aggregate: Aggregate,
    post: PostTransform,
    base: &[f64],
    own_type: bool,
) -> Result<Vec<HostValue>> {
    let found = scores(inputs, trees, aggregate)?;
    let targets = trees.wide.targets();
    let count = trees.wide.trees() as f64;
    let mut values = found.values;
    for (place, value) in values.iter_mut().enumerate() {
        if aggregate == Aggregate::Average {
            *value /= count;
        }
        // One number for a single target, or one for each.
        if base.len() == targets {
            *value += base[place % targets];
        }
    }
    if post != PostTransform::None {
        let mut changed = Vec::with_capacity(values.len());
        for row in values.chunks_exact(targets.max(1)) {
            let mut row: Vec<f32> = row.iter().map(|&value| value as f32).collect();
            post.apply(&mut row, Second::Not);
            changed.extend(row.into_iter().map(f64::from));
        }
        values = changed;
    }
    let shape = [found.rows, targets];
    let dtype = if own_type { inputs.array(0)?.dtype() } else { DType::F32 };
    let scalars: Vec<millstream_core::Scalar> = values.into_iter().map(Into::into).collect();
    Ok(vec![Array::of_scalars(dtype, &shape, &scalars)?.into()])
}

/// How the scores of a classifier become labels.
struct Classes {
    labels: Labels,
    count: usize,
    /// Two classes, and all weights are of one of them.
    binary: bool,
    /// No weight is negative: scores are probabilities.
    positive: bool,
    base: Vec<f32>,
    post: PostTransform,
}

fn classifier(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let labels = Labels::of(&node.attributes, "classlabels_int64s", "classlabels_strings")?;
    let count = labels.len();
    if count == 0 {
        return Err(refusal("there are no labels"));
    }
    let post = PostTransform::of(node.attributes.string_or("post_transform", "NONE")?)?;
    let base = numbers(node, "base_values")?.into_iter().map(|value| value as f32).collect();
    // Weights may be of more classes than there are labels for.
    let highest = node.attributes.ints("class_ids")?.unwrap_or_default().iter().max();
    let targets = highest.map_or(1, |&highest| highest.max(0) as usize + 1).max(count);
    let trees = of_lists(node, "class", targets)?;
    let weights = || trees.leaves.iter().flatten();
    let used: BTreeSet<usize> = weights().map(|&(class, _)| class).collect();
    let classes = Classes {
        binary: count == 2 && used.len() == 1,
        positive: weights().all(|&(_, weight)| weight >= 0.0),
        labels,
        count,
        base,
        post,
    };
    let trees = Both::new(&trees)?;
    host_operator(node, move |inputs| {
        let found = scores(&inputs, &trees, Aggregate::Sum)?;
        let targets = trees.wide.targets();
        let mut chosen = Vec::with_capacity(found.rows);
        let mut all = Vec::with_capacity(found.rows * classes.count);
        let rows = found.values.chunks_exact(targets).zip(found.found.chunks_exact(targets));
        for (values, found) in rows {
            let mut scores: Vec<f32> = values.iter().map(|&value| value as f32).collect();
            chosen.push(classes.finish(&mut scores, found));
            // A score for each label.
            scores.resize(classes.count, 0.0);
            all.extend(scores);
        }
        let scores = Array::from_slice(&all, &[found.rows, classes.count])?;
        Ok(vec![classes.labels.output(&chosen)?, scores.into()])
    })
}

impl Classes {
    /// The class of a row. Its scores become what is given out.
    fn finish(&self, scores: &mut Vec<f32>, found: &[bool]) -> usize {
        if self.count > 2 || (self.count == 2 && !self.binary && found.len() > 2) {
            return self.finish_many(scores, found);
        }
        if self.count == 1 {
            return self.finish_one(scores);
        }
        self.finish_two(scores, found)
    }

    fn finish_many(&self, scores: &mut Vec<f32>, found: &[bool]) -> usize {
        let mut found = found.to_vec();
        for (place, base) in self.base.iter().enumerate().take(scores.len()) {
            scores[place] += base;
            found[place] = true;
        }
        let mut best: Option<usize> = None;
        for (place, &score) in scores.iter().enumerate() {
            if found[place] && best.is_none_or(|best| score > scores[best]) {
                best = Some(place);
            }
        }
        self.post.apply(scores, Second::Not);
        best.unwrap_or(0)
    }

    fn finish_one(&self, scores: &mut Vec<f32>) -> usize {
        if let [base] = self.base[..] {
            scores[0] += base;
        }
        let chosen = usize::from(scores[0] > 0.0);
        self.post.apply(scores, Second::Not);
        chosen
    }

    fn finish_two(&self, scores: &mut Vec<f32>, found: &[bool]) -> usize {
        // All weights are of one class: its score stands for both.
        let single = self.binary;
        let mut score = match single {
            true => {
                scores.iter().zip(found).find(|(_, found)| **found).map_or(0.0, |(one, _)| *one)
            }
            false => 0.0,
        };
        if single {
            match self.base[..] {
                [_, second] => {
                    score += second;
                    *scores = vec![-score, score];
                }
                [base] => {
                    score += base;
                    *scores = vec![score];
                }
                _ => *scores = vec![score],
            }
        } else {
            match self.base[..] {
                [_, second] if found[1] => {
                    scores[1] = second + scores[0];
                    scores[0] = -scores[1];
                }
                [first, second] => {
                    scores[0] += first;
                    scores[1] += second;
                }
                [base] => scores[0] += base,
                _ => {}
            }
            score = scores[1];
        }
        let (yes, second) = match (self.binary, self.positive) {
            (true, true) => (score > 0.5, Second::Rest),
            (true, false) => (score > 0.0, Second::Opposite),
            (false, _) => (score > 0.0, Second::Not),
        };
        self.post.apply(scores, second);
        usize::from(yes)
    }
}
