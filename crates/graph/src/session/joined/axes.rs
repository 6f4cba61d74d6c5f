//! Along which axes calls lie, and the proof for them.

use std::fmt;

use millstream_core::TensorSpec;

use super::Context;
use crate::Result;
use crate::constant::Folder;
use crate::model::{Dim, ValueType};
use crate::program::{Form, Produced, Whole};
use crate::separate::{Joining, Obstacle, Share, prove, same_constant};

/// How the calls of a batch are joined.
#[derive(Clone, Debug)]
pub(in crate::session) struct Proof {
    /// How each input of the model is shared; those that the model has a constant for are whole.
    pub inputs: Vec<Share>,
    /// Where each output of the model is found.
    pub outputs: Vec<Out>,
    /// Whether a batch of 1 that the model fixes in shapes becomes that of all calls.
    pub grows: bool,
}

impl Proof {
    /// Whether an output is one of the inputs.
    pub fn gives_inputs(&self) -> bool {
        self.outputs.iter().any(|out| matches!(out, Out::Input(_)))
    }
}

/// Where an output of a call is found.
#[derive(Clone, Debug)]
pub(in crate::session) enum Out {
    /// In an output of the plan.
    Plan(usize, Share),
    /// It is an input.
    Input(usize),
    /// It is a constant.
    Constant(crate::Constant),
}

/// Whether calls of a session can be joined, as [`Session::joinable`](crate::Session::joinable) says it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Joinable {
    /// They can: each answer has the bits that it has alone. For each input the axis along which calls are joined; none for
    /// inputs that must be the same for all.
    Yes {
        /// By the names of the inputs.
        axes: Vec<(String, Option<usize>)>,
    },
    /// They cannot, or it cannot be proved.
    No {
        /// The node of the model that stands in the way, if it is one.
        node: Option<String>,
        /// Why.
        reason: String,
    },
}

impl fmt::Display for Joinable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Joinable::Yes { axes } => {
                let texts: Vec<String> = axes
                    .iter()
                    .map(|(name, axis)| match axis {
                        Some(axis) => format!("{name} along axis {axis}"),
                        None => format!("{name} the same for all"),
                    })
                    .collect();
                write!(f, "calls can be joined: {}", texts.join(", "))
            }
            Joinable::No { node: Some(node), reason } => {
                write!(f, "calls are not joined: node {node:?}: {reason}")
            }
            Joinable::No { node: None, reason } => write!(f, "calls are not joined: {reason}"),
        }
    }
}

/// The forms of the inputs of so many calls.
pub(super) fn forms_of(forms: &[Form], shares: &[Share], calls: usize) -> Option<Vec<Form>> {
    let joined = forms.iter().zip(shares).map(|(form, share)| match (form, share) {
        (Form::Tensor(spec), Share::Parts(axis)) => {
            let mut shape = spec.shape().to_vec();
            let size = shape.get_mut(*axis)?;
            *size = size.checked_mul(calls)?;
            TensorSpec::new(spec.dtype(), &shape).ok().map(Form::Tensor)
        }
        _ => Some(form.clone()),
    });
    joined.collect()
}

/// Ways in which inputs may be shared, the likeliest first.
fn ways(context: &Context, forms: &[Form]) -> Vec<Vec<Share>> {
    let shape = |form: &Form| match form {
        Form::Tensor(spec) => spec.shape().to_vec(),
        _ => Vec::new(),
    };
    let shapes: Vec<Vec<usize>> = forms.iter().map(shape).collect();
    if let Some(axis) = context.batching.assumed_axis {
        let share =
            |shape: &Vec<usize>| if axis < shape.len() { Share::Parts(axis) } else { Share::Whole };
        return vec![shapes.iter().map(share).collect()];
    }
    let first = |shape: &Vec<usize>| if shape.is_empty() { Share::Whole } else { Share::Parts(0) };
    let all_first: Vec<Share> = shapes.iter().map(first).collect();
    // The number of rows of a call, as the first input has it.
    let rows = shapes.iter().find_map(|shape| shape.first().copied());
    let name_of = |port: &crate::model::Port, axis: usize| match &port.declared {
        ValueType::Tensor(_, Some(dims)) => match dims.get(axis) {
            Some(Dim::Named(name)) => Some(name.clone()),
            _ => None,
        },
        _ => None,
    };
    let batch_name = context.ports.iter().find_map(|port| name_of(port, 0));
    // States of recurrent layers have their calls on the second axis.
    let second = |shape: &Vec<usize>| {
        let is_second =
            shape.len() > 1 && shape.first().copied() != rows && shape.get(1).copied() == rows;
        if is_second { Share::Parts(1) } else { first(shape) }
    };
    let by_size: Vec<Share> = shapes.iter().map(second).collect();
    // The same where a state has one layer, so that sizes do not tell.
    let state = |(at, shape): (usize, &Vec<usize>)| match shape.len() {
        3 if at > 0 && shape.get(1).copied() == rows => Share::Parts(1),
        _ => first(shape),
    };
    let states: Vec<Share> = shapes.iter().enumerate().map(state).collect();
    let by_name: Vec<Share> = context
        .ports
        .iter()
        .zip(&by_size)
        .zip(&shapes)
        .map(|((port, guess), shape)| {
            let named = (0..shape.len())
                .find(|&axis| batch_name.is_some() && name_of(port, axis) == batch_name);
            named.map_or(*guess, Share::Parts)
        })
        .collect();
    // Numbers that belong to no row, such as a sampling rate.
    let numbers: Vec<Share> = by_name
        .iter()
        .zip(&shapes)
        .map(|(share, shape)| if shape.len() < 2 { Share::Whole } else { *share })
        .collect();
    let mut ways = Vec::new();
    for way in [by_name, by_size, all_first, states, numbers] {
        if !ways.contains(&way) && way.iter().any(|share| *share != Share::Whole) {
            ways.push(way);
        }
    }
    ways
}

/// The graph for these forms, if it is one.
fn graph(
    context: &Context,
    forms: &[Form],
    joining: Option<&Joining>,
) -> std::result::Result<Whole, Obstacle> {
    match context.program.whole(&context.settings, forms, joining) {
        Ok(Ok(whole)) => Ok(whole),
        Ok(Err(node)) => {
            Err(Obstacle { node, reason: "it needs contents that only a call has".into() })
        }
        Err(error) => Err(Obstacle::of(error.to_string())),
    }
}

/// How so many calls of these forms are joined. Constants are brought by no call.
pub(super) fn joining(forms: &[Form], shares: &[Share], calls: usize, grows: bool) -> Joining {
    let brought = forms.iter().zip(shares).filter(|(form, _)| !matches!(form, Form::Constant(_)));
    Joining { calls, inputs: brought.map(|(_, share)| *share).collect(), grows }
}

/// Whether the model says that there is one row, where calls are joined.
fn fixes_one_row(context: &Context, inputs: &[Share]) -> bool {
    let one = |(port, share): (&crate::model::Port, &Share)| match (&port.declared, share) {
        (ValueType::Tensor(_, Some(dims)), Share::Parts(axis)) => {
            dims.get(*axis) == Some(&Dim::Known(1))
        }
        _ => *share == Share::Whole,
    };
    context.ports.iter().zip(inputs).all(one)
}

/// The number of the input of the model that a register holds.
fn input_of(forms: &[Form], register: usize) -> Option<usize> {
    let mut registers = 0..;
    forms.iter().position(|form| match form {
        Form::Constant(_) => false,
        _ => registers.next() == Some(register),
    })
}

/// Proves that so many calls of these forms can be joined in one of the ways given, and says how.
fn prove_ways(
    context: &Context,
    forms: &[Form],
    ways: Vec<Vec<Share>>,
    calls: usize,
) -> std::result::Result<Proof, Obstacle> {
    let single = graph(context, forms, None)?;
    let mut obstacle = Obstacle::of("no input has an axis for calls");
    for (number, inputs) in ways.into_iter().enumerate() {
        // First as the model is; then with shapes that grow with the batch, if it fixes them for one row.
        let grown = fixes_one_row(context, &inputs).then_some(true);
        for grows in [Some(false), grown].into_iter().flatten() {
            match prove_one(context, forms, &single, &inputs, calls, grows) {
                Ok(outputs) => return Ok(Proof { inputs, outputs, grows }),
                Err(found) if number == 0 => obstacle = found,
                Err(_) => {}
            }
        }
    }
    Err(obstacle)
}

fn prove_one(
    context: &Context,
    forms: &[Form],
    single: &Whole,
    inputs: &[Share],
    calls: usize,
    grows: bool,
) -> std::result::Result<Vec<Out>, Obstacle> {
    let too_large = || Obstacle::of("a batch has more elements than can be addressed");
    let joined = forms_of(forms, inputs, calls).ok_or_else(too_large)?;
    let batch = graph(context, &joined, Some(&joining(forms, inputs, calls, grows)))?;
    // The shares of the inputs of the graph: it has those that are not constant, by their registers.
    let of_register = |&register: &usize| {
        let input = input_of(forms, register)?;
        inputs.get(input).copied()
    };
    let shares: Option<Vec<Share>> = batch.input_registers.iter().map(of_register).collect();
    let Some(shares) = shares else { return Err(Obstacle::of("an input is no tensor")) };
    let made = match context.batching.assumed_axis {
        Some(axis) => vec![Share::Parts(axis); batch.graph.outputs().len()],
        None => prove(&single.graph, &batch.graph, calls, &shares, &context.settings.folder)?,
    };
    let ends = batch.graph.inputs().iter().chain(batch.graph.outputs());
    if ends.into_iter().any(|&edge| batch.graph.dtype(edge).per_byte() != 1) {
        return Err(Obstacle::of("two elements of an input or output share a byte"));
    }
    for (share, &edge) in made.iter().zip(batch.graph.outputs()) {
        let shape = batch.graph.shape(edge);
        if let Share::Parts(axis) = share
            && shape.get(*axis).is_none_or(|size| size % calls != 0)
        {
            return Err(Obstacle::of(format!("an output of shape {shape:?} has no axis of calls")));
        }
    }
    let found = batch.outputs.iter().map(|output| match output {
        Produced::Register(register) if *register < batch.first_output => {
            input_of(forms, *register).map(Out::Input)
        }
        Produced::Register(register) => {
            let output = register - batch.first_output;
            made.get(output).map(|share| Out::Plan(output, *share))
        }
        Produced::Constant(constant) => Some(Out::Constant(constant.clone())),
        Produced::Sequence(_) | Produced::Optional(_) | Produced::Known(_) => None,
    });
    let found: Option<Vec<Out>> = found.collect();
    let found = found.ok_or_else(|| Obstacle::of("an output is no tensor"))?;
    if !has_same_outputs(&batch, single, &context.settings.folder) {
        return Err(Obstacle::of("an output follows from the size of the batch"));
    }
    Ok(found)
}

/// Whether the outputs of the model are found in the same places of both, and those that are constants for a shape have the same value:
/// the graphs do not show them.
fn has_same_outputs(batch: &Whole, single: &Whole, folder: &Folder) -> bool {
    // Whether it is an input, and its number.
    let place = |whole: &Whole, register: usize| match register.checked_sub(whole.first_output) {
        Some(output) => (false, output),
        None => (true, register),
    };
    let same = |(of_batch, of_single): (&Produced, &Produced)| match (of_batch, of_single) {
        (Produced::Register(a), Produced::Register(b)) => place(batch, *a) == place(single, *b),
        (Produced::Constant(a), Produced::Constant(b)) => same_constant(a, b, folder),
        _ => false,
    };
    batch.outputs.len() == single.outputs.len()
        && batch.outputs.iter().zip(&single.outputs).all(same)
}

/// The proof for two calls, which says how calls are joined.
pub(super) fn first_proof(
    context: &Context,
    forms: &[Form],
) -> std::result::Result<Proof, Obstacle> {
    prove_ways(context, forms, ways(context, forms), 2)
}

/// Whether the proof holds for a batch of so many calls too.
pub(super) fn holds(
    context: &Context,
    forms: &[Form],
    proof: &Proof,
    calls: usize,
) -> Result<bool> {
    let found = prove_ways(context, forms, vec![proof.inputs.clone()], calls);
    let same = |found: &Proof| {
        let pairs = found.outputs.iter().zip(&proof.outputs);
        found.grows == proof.grows
            && found.outputs.len() == proof.outputs.len()
            && pairs.into_iter().all(|(a, b)| match (a, b) {
                (Out::Plan(a, x), Out::Plan(b, y)) => a == b && x == y,
                (Out::Input(a), Out::Input(b)) => a == b,
                (Out::Constant(_), Out::Constant(_)) => true,
                _ => false,
            })
    };
    Ok(found.as_ref().is_ok_and(same))
}

impl Joinable {
    pub(super) fn of(context: &Context, proof: std::result::Result<&Proof, &Obstacle>) -> Self {
        match proof {
            Ok(proof) => {
                let axes = context.ports.iter().zip(&proof.inputs).map(|(port, share)| {
                    let axis = match share {
                        Share::Parts(axis) => Some(*axis),
                        Share::Whole => None,
                    };
                    (port.name.clone(), axis)
                });
                Joinable::Yes { axes: axes.collect() }
            }
            Err(Obstacle { node, reason }) => {
                Joinable::No { node: node.clone(), reason: reason.clone() }
            }
        }
    }
}
