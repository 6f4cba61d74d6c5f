//! Recurrent layers.

use millstream_core::{
    DType, DynamicRange, Op, RecurrentActivation, RecurrentCell, RecurrentDirection,
    RecurrentParams, RecurrentVariant,
};
use millstream_graph::{Edge, Expanded, Expander};

use super::common::{Made, cast, many, permute, refuse, reshape, unknown};
use crate::Result;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[
    ("GRU", |node| {
        let linear_before_reset = node.attributes.flag("linear_before_reset", false)?;
        recurrent(node, RecurrentCell::Gru { linear_before_reset }, Weights::Floats)
    }),
    ("LSTM", |node| recurrent(node, RecurrentCell::Lstm, Weights::Floats)),
    ("RNN", |node| recurrent(node, RecurrentCell::RnnTanh, Weights::Floats)),
];

/// Those of `com.microsoft`.
pub(crate) const MICROSOFT: Table =
    &[("DynamicQuantizeLSTM", |node| recurrent(node, RecurrentCell::Lstm, Weights::Bytes))];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Weights {
    Floats,
    /// `[directions, columns, gates · hidden]`, with scales and zero points behind the other inputs.
    Bytes,
}

fn recurrent(node: &mut NodeDef<'_, '_>, cell: RecurrentCell, weights: Weights) -> Made {
    let direction = match node.attributes.string_or("direction", "forward")? {
        "forward" => RecurrentDirection::Forward,
        "reverse" => RecurrentDirection::Reverse,
        "bidirectional" => RecurrentDirection::Both,
        other => return unknown("direction", other),
    };
    let (cell, activations) = activations(node, cell, direction.count())?;
    let clip = node.attributes.float("clip")?.filter(|&clip| clip != 0.0);
    let lstm = cell == RecurrentCell::Lstm;
    let input_forget = lstm && node.attributes.flag("input_forget", false)?;
    let batch_first = node.attributes.flag("layout", false)?;
    node.attributes.ignore(&["hidden_size", "output_sequence"]);
    operator(node, move |at, inputs| {
        let time_first = |at: &mut Expander<'_>, edge: Edge| -> Expanded<Edge> {
            if batch_first { permute(at, edge, &[1, 0, 2]) } else { Ok(edge) }
        };
        let (mut input, mut weight, mut hidden_weight) =
            (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
        let mut steps = [None; 4];
        if weights == Weights::Bytes {
            // The input is rounded to 8 bits as a whole, and the hidden state at each step.
            let bytes = Op::DynamicQuantize { range: DynamicRange::Tensor, dtype: DType::U8 };
            let bytes = at.apply_all(bytes, &[input])?;
            let whole = Op::Dequantize { axis: None, dtype: DType::F32, zero: true, block: None };
            input = at.apply(whole, &bytes)?;
            weight = permute(at, weight, &[0, 2, 1])?;
            hidden_weight = permute(at, hidden_weight, &[0, 2, 1])?;
            let scales = [Some(inputs.tensor(8)?), Some(inputs.tensor(10)?)];
            let zeros = match (inputs.optional(9)?, inputs.optional(11)?) {
                (None, None) => [None; 2],
                (Some(one), Some(other)) => [Some(one), Some(other)],
                _ => return refuse("only one of the weights has zero points"),
            };
            for (step, given) in steps.iter_mut().zip(scales.into_iter().chain(zeros)) {
                *step = given.map(|given| by_row(at, given)).transpose()?;
            }
        }
        input = time_first(at, input)?;
        let bias = match inputs.optional(3)? {
            Some(bias) => Some(split_bias(at, bias)?),
            None => None,
        };
        let lengths = match inputs.optional(4)? {
            Some(lengths) => Some(cast(at, lengths, DType::I32)?),
            None => None,
        };
        let state = |at: &mut Expander<'_>, index: usize| -> Expanded<Option<Edge>> {
            inputs.optional(index)?.map(|state| time_first(at, state)).transpose()
        };
        let hidden = state(at, 5)?;
        let (cell_state, peepholes) =
            if lstm { (state(at, 6)?, inputs.optional(7)?) } else { (None, None) };
        let params = RecurrentParams {
            cell,
            direction,
            bias: bias.is_some(),
            initial_hidden: hidden.is_some(),
            initial_cell: cell_state.is_some(),
            lengths: lengths.is_some(),
            variant: RecurrentVariant {
                clip,
                input_forget,
                activations,
                peepholes: peepholes.is_some(),
                quantized: weights == Weights::Bytes,
                zeros: steps[2].is_some(),
                rounded: weights == Weights::Bytes,
            },
        };
        let given: Vec<Edge> = [Some(input), Some(weight), Some(hidden_weight)]
            .into_iter()
            .chain([bias, hidden, cell_state, lengths, peepholes])
            .chain(steps)
            .flatten()
            .collect();
        let mut made = at.apply_all(Op::Recurrent { params: Box::new(params) }, &given)?;
        if batch_first {
            made[0] = permute(at, made[0], &[2, 0, 1, 3])?;
            for state in &mut made[1..] {
                *state = permute(at, *state, &[1, 0, 2])?;
            }
        }
        many(made)
    })
}

/// Scales or zero points, one of each direction or one of each row of it.
fn by_row(at: &mut Expander<'_>, given: Edge) -> Expanded<Edge> {
    match at.shape(given)[..] {
        [] => reshape(at, given, &[1, 1]),
        [directions] => reshape(at, given, &[directions, 1]),
        _ => Ok(given),
    }
}

/// The bias of the input and that of the hidden state, which lie one behind the other.
fn split_bias(at: &mut Expander<'_>, bias: Edge) -> Expanded<Edge> {
    match at.shape(bias)[..] {
        [directions, both] if both % 2 == 0 => reshape(at, bias, &[directions, 2, both / 2]),
        ref other => refuse(format!("a bias of shape {other:?}")),
    }
}

type Activations = Option<[[RecurrentActivation; 3]; 2]>;

/// The cell, and its activations if they are not the usual ones.
fn activations(
    node: &NodeDef<'_, '_>,
    cell: RecurrentCell,
    directions: usize,
) -> Result<(RecurrentCell, Activations)> {
    let alphas = node.attributes.floats("activation_alpha")?.unwrap_or_default();
    let betas = node.attributes.floats("activation_beta")?.unwrap_or_default();
    let Some(names) = node.attributes.strings("activations")? else { return Ok((cell, None)) };
    let usual = cell.activations();
    let each = match cell {
        RecurrentCell::Lstm => 3,
        RecurrentCell::Gru { .. } => 2,
        RecurrentCell::RnnTanh | RecurrentCell::RnnRelu => 1,
    };
    let (mut alphas, mut betas) = (alphas.iter().copied(), betas.iter().copied());
    let mut all = [usual; 2];
    if !names.is_empty() && names.len() != each * directions {
        return unknown("activations", format!("{names:?}"));
    }
    for (index, name) in names.iter().enumerate() {
        let activation = activation(name, &mut alphas, &mut betas)?;
        all[index / each][index % each] = activation;
    }
    if directions == 1 {
        all[1] = all[0];
    }
    if cell == RecurrentCell::RnnTanh && all.iter().all(|one| one[0] == RecurrentActivation::Relu) {
        return Ok((RecurrentCell::RnnRelu, None));
    }
    let same = all.iter().all(|one| one[..each] == usual[..each]);
    Ok((cell, (!same).then_some(all)))
}

/// An activation by its name. Parameters are taken in order, by those that have them.
fn activation(
    name: &str,
    alphas: &mut impl Iterator<Item = f32>,
    betas: &mut impl Iterator<Item = f32>,
) -> Result<RecurrentActivation> {
    use RecurrentActivation as A;
    let mut alpha = |default: f32| alphas.next().unwrap_or(default);
    let mut beta = |default: f32| betas.next().unwrap_or(default);
    Ok(match name.to_ascii_lowercase().as_str() {
        "relu" => A::Relu,
        "tanh" => A::Tanh,
        "sigmoid" => A::Sigmoid,
        "softsign" => A::Softsign,
        "softplus" => A::Softplus,
        "affine" => A::Affine { alpha: alpha(1.0), beta: beta(0.0) },
        "leakyrelu" => A::LeakyRelu { alpha: alpha(0.01) },
        "thresholdedrelu" => A::ThresholdedRelu { alpha: alpha(1.0) },
        "scaledtanh" => A::ScaledTanh { alpha: alpha(1.0), beta: beta(1.0) },
        "hardsigmoid" => A::HardSigmoid { alpha: alpha(0.2), beta: beta(0.5) },
        "elu" => A::Elu { alpha: alpha(1.0) },
        _ => return unknown("an activation", name),
    })
}
