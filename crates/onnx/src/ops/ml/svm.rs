//! Support vector machines.

use millstream_graph::{Array, Operator};

use super::super::common::refusal;
use super::super::host::{HostInputs, host_operator};
use super::labels::Labels;
use super::linear::largest;
use super::post::{PostTransform, Second, logistic};
use crate::Result;
use crate::node::NodeDef;
use crate::registry::Table;

pub(super) const TABLE: Table = &[("SVMClassifier", classifier), ("SVMRegressor", regressor)];

/// How alike two vectors are.
#[derive(Clone, Copy, Debug)]
enum Kernel {
    Linear,
    Poly { gamma: f32, add: f32, degree: f32 },
    Rbf { gamma: f32 },
    Sigmoid { gamma: f32, add: f32 },
}

impl Kernel {
    fn of(node: &NodeDef<'_, '_>) -> Result<Self> {
        let params = node.attributes.floats("kernel_params")?.unwrap_or_default();
        let param = |index: usize| params.get(index).copied().unwrap_or(0.0);
        let (gamma, add, degree) = (param(0), param(1), param(2));
        Ok(match node.attributes.string_or("kernel_type", "LINEAR")? {
            "LINEAR" => Self::Linear,
            "POLY" => Self::Poly { gamma, add, degree },
            "RBF" => Self::Rbf { gamma },
            "SIGMOID" => Self::Sigmoid { gamma, add },
            other => return Err(refusal(format!("kernel_type {other:?}"))),
        })
    }

    fn of_pair(self, a: &[f32], b: &[f32]) -> f32 {
        let dot = || a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        match self {
            Self::Linear => dot(),
            Self::Poly { gamma, add, degree } => (gamma * dot() + add).powf(degree),
            Self::Sigmoid { gamma, add } => (gamma * dot() + add).tanh(),
            Self::Rbf { gamma } => {
                let distance = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f32>();
                (-gamma * distance).exp()
            }
        }
    }
}

/// Rows of features.
struct Rows {
    values: Vec<f32>,
    count: usize,
    width: usize,
}

impl Rows {
    fn of(inputs: &HostInputs<'_>, features: usize) -> Result<Self> {
        let array = inputs.array(0)?;
        let (count, width) = match array.shape() {
            [width] => (1, *width),
            [count, width] => (*count, *width),
            shape => return Err(refusal(format!("features of shape {shape:?}"))),
        };
        if width != features || width == 0 {
            return Err(refusal(format!("{width} features for a model of {features}")));
        }
        let values = array.to_f64s()?.into_iter().map(|value| value as f32).collect();
        Ok(Self { values, count, width })
    }

    fn iter(&self) -> impl Iterator<Item = &[f32]> {
        self.values.chunks_exact(self.width)
    }
}

fn regressor(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let attributes = &node.attributes;
    let floats = |name: &str| -> Result<Vec<f32>> {
        Ok(attributes.floats(name)?.unwrap_or_default().to_vec())
    };
    let (vectors, weights, rho) =
        (floats("support_vectors")?, floats("coefficients")?, floats("rho")?);
    let count = attributes.int_or("n_supports", 0)?;
    let Ok(count) = usize::try_from(count) else {
        return Err(refusal(format!("{count} support vectors")));
    };
    let one_class = attributes.flag("one_class", false)?;
    let post = PostTransform::of(attributes.string_or("post_transform", "NONE")?)?;
    let kernel = if count == 0 { Kernel::Linear } else { Kernel::of(node)? };
    node.attributes.ignore(&["kernel_type", "kernel_params"]);
    let Some(&rho) = rho.first() else { return Err(refusal("rho is not given")) };
    // Without support vectors the weights are those of the features.
    let features = vectors.len().checked_div(count).unwrap_or(weights.len());
    if count > 0 && (weights.len() < count || vectors.len() != count * features || features == 0) {
        let (weights, vectors) = (weights.len(), vectors.len());
        return Err(refusal(format!(
            "{weights} weights and {vectors} numbers for {count} vectors"
        )));
    }
    host_operator(node, move |inputs| {
        let rows = Rows::of(&inputs, features)?;
        let mut results = Vec::with_capacity(rows.count);
        for row in rows.iter() {
            let sum = match count {
                0 => kernel.of_pair(row, &weights),
                _ => {
                    let vectors = vectors.chunks_exact(features).zip(&weights);
                    vectors.map(|(vector, weight)| kernel.of_pair(row, vector) * weight).sum()
                }
            };
            let sum = sum + rho;
            let mut scores = vec![match one_class {
                true if sum > 0.0 => 1.0,
                true => -1.0,
                false => sum,
            }];
            post.apply(&mut scores, Second::Not);
            results.extend(scores);
        }
        Ok(vec![Array::from_slice(&results, &[rows.count, 1])?.into()])
    })
}

/// A classifier of pairs of classes, or one linear function for each class.
struct SupportVectors {
    kernel: Kernel,
    /// How many vectors each class has; none for linear functions.
    counts: Vec<usize>,
    vectors: Vec<f32>,
    weights: Vec<f32>,
    rho: Vec<f32>,
    /// Slopes and offsets that make probabilities of pairs.
    slopes: Vec<f32>,
    offsets: Vec<f32>,
    features: usize,
    classes: usize,
    labels: Labels,
    post: PostTransform,
    positive: bool,
}

fn classifier(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let attributes = &node.attributes;
    let floats = |name: &str| -> Result<Vec<f32>> {
        Ok(attributes.floats(name)?.unwrap_or_default().to_vec())
    };
    let labels = Labels::of(attributes, "classlabels_ints", "classlabels_strings")?;
    let classes = labels.len();
    let counts = attributes.ints("vectors_per_class")?.unwrap_or_default().iter();
    let counts = counts.map(|&count| usize::try_from(count).ok()).collect::<Option<Vec<_>>>();
    let Some(counts) = counts else { return Err(refusal("vectors_per_class is negative")) };
    let sum = counts.iter().try_fold(0usize, |sum, &count| sum.checked_add(count));
    let Some(total) = sum else { return Err(refusal("vectors_per_class is too large")) };
    let (vectors, weights) = (floats("support_vectors")?, floats("coefficients")?);
    let (rho, slopes, offsets) = (floats("rho")?, floats("prob_a")?, floats("prob_b")?);
    let kernel = if total == 0 { Kernel::Linear } else { Kernel::of(node)? };
    attributes.ignore(&["kernel_type", "kernel_params"]);
    let post = PostTransform::of(attributes.string_or("post_transform", "NONE")?)?;
    if classes == 0 || classes > 1 << 12 {
        return Err(refusal(format!("{classes} labels")));
    }
    let pairs = classes * (classes - 1) / 2;
    let features = match total {
        0 => weights.len() / classes,
        _ => vectors.len() / total,
    };
    // Lists that do not fit each other would be read beyond their end.
    let fits = match total {
        0 => !rho.is_empty() && weights.len() == classes * features,
        _ => {
            counts.len() == classes
                && vectors.len() == total * features
                && weights.len() >= (classes - 1) * total
                && rho.len() >= pairs
                && slopes.len() == offsets.len()
                && (slopes.is_empty() || slopes.len() >= pairs)
        }
    };
    if !fits || features == 0 {
        let reason = format!(
            "lists do not fit each other: {classes} labels, {} classes of vectors, {} numbers of {total} vectors, {} \
             coefficients, {} of rho, {} and {} of probabilities",
            counts.len(),
            vectors.len(),
            weights.len(),
            rho.len(),
            slopes.len(),
            offsets.len()
        );
        return Err(refusal(reason));
    }
    let positive = weights.iter().all(|weight| *weight >= 0.0);
    let machine = SupportVectors {
        kernel,
        counts: if total == 0 { Vec::new() } else { counts },
        vectors,
        weights,
        rho,
        slopes,
        offsets,
        features,
        classes,
        labels,
        post,
        positive,
    };
    host_operator(node, move |inputs| {
        let rows = Rows::of(&inputs, machine.features)?;
        let (mut all, mut chosen) = (Vec::new(), Vec::with_capacity(rows.count));
        for row in rows.iter() {
            let (class, scores) = machine.classify(row);
            chosen.push(class);
            all.extend(scores);
        }
        let width = match all.len().checked_div(rows.count) {
            Some(width) => width,
            // As many as any row would have.
            None => machine.classify(&vec![0.0; machine.features]).1.len(),
        };
        let scores = Array::from_slice(&all, &[rows.count, width])?;
        Ok(vec![machine.labels.output(&chosen)?, scores.into()])
    })
}

impl SupportVectors {
    fn classify(&self, row: &[f32]) -> (usize, Vec<f32>) {
        if self.counts.is_empty() {
            let weights = self.weights.chunks_exact(self.features);
            let mut scores: Vec<f32> =
                weights.map(|weights| self.kernel.of_pair(row, weights) + self.rho[0]).collect();
            let class = self.choose(largest(&scores), scores[largest(&scores)], false);
            self.post.apply(&mut scores, Second::Not);
            return (class, scores);
        }
        let (pairs, votes) = self.pairs(row);
        let mut best = 0;
        for (class, &count) in votes.iter().enumerate() {
            if count > votes[best] {
                best = class;
            }
        }
        let probable = !self.slopes.is_empty();
        let mut scores = if probable { self.probabilities(&pairs) } else { pairs };
        let class = self.choose(best, 0.0, probable);
        let second = match (probable, self.classes, self.post) {
            (false, ..=2, PostTransform::None) => Second::Opposite,
            (false, ..=2, _) => Second::Rest,
            _ => Second::Not,
        };
        self.post.apply(&mut scores, second);
        (class, scores)
    }

    /// The class of a row. With two classes a weight counts more than votes.
    fn choose(&self, best: usize, weight: f32, probable: bool) -> usize {
        if self.classes != 2 || probable {
            return best;
        }
        let above = if self.positive { weight >= 0.5 } else { weight > 0.0 };
        if above { 1 } else { best }
    }

    /// The score of each pair of classes, and how many pairs each class wins.
    fn pairs(&self, row: &[f32]) -> (Vec<f32>, Vec<usize>) {
        let vectors = self.vectors.chunks_exact(self.features);
        let alike: Vec<f32> = vectors.map(|vector| self.kernel.of_pair(row, vector)).collect();
        let total = alike.len();
        let mut starts = Vec::with_capacity(self.classes);
        let mut start = 0;
        for &count in &self.counts {
            starts.push(start);
            start += count;
        }
        let part = |line: usize, class: usize| -> f64 {
            let (start, count) = (starts[class], self.counts[class]);
            let weights = &self.weights[line * total + start..][..count];
            let products = weights.iter().zip(&alike[start..][..count]);
            products.map(|(weight, alike)| f64::from(weight * alike)).sum()
        };
        let mut scores = Vec::with_capacity(self.classes * (self.classes - 1) / 2);
        let mut votes = vec![0; self.classes];
        for first in 0..self.classes {
            for second in first + 1..self.classes {
                let sum = part(second - 1, first) + part(first, second);
                let sum = sum + f64::from(self.rho[scores.len()]);
                scores.push(sum as f32);
                votes[if sum > 0.0 { first } else { second }] += 1;
            }
        }
        (scores, votes)
    }

    /// Probabilities of classes from those of pairs: the method of Wu, Lin and Weng.
    fn probabilities(&self, pairs: &[f32]) -> Vec<f32> {
        let count = self.classes;
        let mut of_pair = vec![0f32; count * count];
        let mut pair = 0;
        for first in 0..count {
            for second in first + 1..count {
                let value = pairs[pair] * self.slopes[pair] + self.offsets[pair];
                let probability = (1.0 - logistic(value)).clamp(1e-7, 1.0 - 1e-7);
                of_pair[first * count + second] = probability;
                of_pair[second * count + first] = 1.0 - probability;
                pair += 1;
            }
        }
        coupled(&of_pair, count)
    }
}

/// The distribution that fits the probabilities of all pairs best.
fn coupled(of_pair: &[f32], count: usize) -> Vec<f32> {
    const ROUNDS: usize = 100;
    let at = |row: usize, column: usize| of_pair[row * count + column];
    let mut matrix = vec![0f32; count * count];
    for row in 0..count {
        for column in 0..count {
            matrix[row * count + column] = match row == column {
                true => (0..count).filter(|&one| one != row).map(|one| at(one, row).powi(2)).sum(),
                false => -at(column, row) * at(row, column),
            };
        }
    }
    let mut result = vec![1.0 / count as f32; count];
    let enough = 0.005 / count as f32;
    for _ in 0..ROUNDS {
        let mut products: Vec<f32> = matrix
            .chunks_exact(count)
            .map(|row| row.iter().zip(&result).map(|(a, b)| a * b).sum())
            .collect();
        let mut square: f32 = products.iter().zip(&result).map(|(a, b)| a * b).sum();
        if products.iter().all(|product| (product - square).abs() < enough) {
            break;
        }
        for row in 0..count {
            let own = matrix[row * count + row];
            let change = (square - products[row]) / own;
            result[row] += change;
            let shrink = 1.0 + change;
            square = (square + change * (change * own + 2.0 * products[row])) / shrink / shrink;
            for column in 0..count {
                products[column] =
                    (products[column] + change * matrix[row * count + column]) / shrink;
                result[column] /= shrink;
            }
        }
    }
    result
}
