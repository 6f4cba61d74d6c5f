//! Linear models.

use millstream_core::{BinaryOp, DType, Epilogue, Op};
use millstream_graph::{Array, Constant, Edge, Expanded, Expander, Operator};

use super::super::common::{cast, one, pair, refusal, refuse, reshape};
use super::super::host::HostInputs;
use super::super::then::device_then_host;
use super::labels::Labels;
use super::post::{PostTransform, Second};
use crate::Result;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(super) const TABLE: Table = &[("LinearClassifier", classifier), ("LinearRegressor", regressor)];

/// Weights and biases of a linear model.
struct Model {
    /// One column for each target.
    weights: Constant,
    bias: Option<Constant>,
    features: usize,
}

impl Model {
    fn of(node: &NodeDef<'_, '_>, targets: usize) -> Result<Self> {
        let weights = node.attributes.floats("coefficients")?.unwrap_or_default();
        let bias = node.attributes.floats("intercepts")?.unwrap_or_default();
        if targets == 0
            || weights.len() % targets != 0
            || !(bias.is_empty() || bias.len() == targets)
        {
            let reason = format!(
                "{} coefficients and {} intercepts for {targets} targets",
                weights.len(),
                bias.len()
            );
            return Err(refusal(reason));
        }
        let features = weights.len() / targets;
        // Columns, as products read them.
        let mut columns = Vec::with_capacity(weights.len());
        for feature in 0..features {
            columns.extend((0..targets).map(|target| weights[target * features + feature]));
        }
        let bias = match bias {
            [] => None,
            bias => Some(Constant::new(Array::from_slice(bias, &[targets])?)),
        };
        let weights = Constant::new(Array::from_slice(&columns, &[features, targets])?);
        Ok(Self { weights, bias, features })
    }

    /// The scores of all rows.
    fn scores(&self, at: &mut Expander<'_>, input: Edge) -> Expanded<Edge> {
        let input = cast(at, input, DType::F32)?;
        let input = match at.shape(input)[..] {
            [features] => reshape(at, input, &[1, features])?,
            [_, _] => input,
            _ => return refuse(format!("features of shape {:?}", &at.shape(input)[..])),
        };
        let columns = at.shape(input)[1];
        if columns != self.features {
            return refuse(format!("{columns} features for a model of {}", self.features));
        }
        let weights = at.shared_constant(&self.weights);
        let product = Op::MatMul { epilogue: Epilogue::default() };
        let scores = at.apply(product, &[input, weights])?;
        match &self.bias {
            Some(bias) => {
                let bias = at.shared_constant(bias);
                pair(at, BinaryOp::Add, scores, bias)
            }
            None => Ok(scores),
        }
    }
}

fn regressor(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let targets = node.attributes.int_or("targets", 1)?;
    let post = PostTransform::of(node.attributes.string_or("post_transform", "NONE")?)?;
    let model = Model::of(node, usize::try_from(targets).unwrap_or(0))?;
    if post == PostTransform::None {
        return operator(node, move |at, inputs| {
            let input = inputs.tensor(0)?;
            one(model.scores(at, input)?)
        });
    }
    device_then_host(
        node,
        move |at, inputs| {
            let input = inputs.tensor(0)?;
            one(model.scores(at, input)?)
        },
        move |inputs| {
            let (mut all, shape) = (Vec::new(), inputs.array(0)?.shape().to_vec());
            for mut row in score_rows(&inputs)? {
                post.apply(&mut row, Second::Not);
                all.extend(row);
            }
            Ok(vec![Array::from_slice(&all, &shape)?.into()])
        },
    )
}

/// The rows of the first input.
fn score_rows(inputs: &HostInputs<'_>) -> Result<Vec<Vec<f32>>> {
    let scores = inputs.array(0)?;
    let width = scores.shape().last().copied().unwrap_or(1).max(1);
    let values: Vec<f32> = scores.to_vec()?;
    Ok(values.chunks(width).map(<[f32]>::to_vec).collect())
}

fn classifier(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let labels = Labels::of(&node.attributes, "classlabels_ints", "classlabels_strings")?;
    let post = PostTransform::of(node.attributes.string_or("post_transform", "NONE")?)?;
    node.attributes.ignore(&["multi_class"]);
    // As many scores as there are intercepts.
    let targets = node.attributes.floats("intercepts")?.map_or(labels.len(), <[f32]>::len);
    if targets > 1 && targets != labels.len() {
        return Err(refusal(format!("{} labels for {targets} classes", labels.len())));
    }
    let model = Model::of(node, targets)?;
    let second = if labels.len() == 2 { Second::Rest } else { Second::Not };
    device_then_host(
        node,
        move |at, inputs| {
            let input = inputs.tensor(0)?;
            one(model.scores(at, input)?)
        },
        move |inputs| {
            let (mut all, mut chosen) = (Vec::new(), Vec::new());
            let rows = score_rows(&inputs)?;
            let count = rows.len();
            // As many as there are of any row: there may be none.
            let mut any = vec![0.0; targets];
            post.apply(&mut any, second);
            for mut row in rows {
                chosen.push(match row[..] {
                    [score] => usize::from(score > 0.0),
                    _ => largest(&row),
                });
                post.apply(&mut row, second);
                all.extend(row);
            }
            let scores = Array::from_slice(&all, &[count, any.len()])?;
            Ok(vec![labels.output(&chosen)?, scores.into()])
        },
    )
}

/// The place of the largest, the first of equal ones.
pub(super) fn largest(values: &[f32]) -> usize {
    let mut best = 0;
    for (place, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = place;
        }
    }
    best
}
