//! Along which axes calls lie, and the proof for them.

use std::fmt;

use millstream_core::TensorSpec;

use super::Context;
use crate::Result;
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
    compare(context, forms, single, inputs, (calls, &batch))
}

/// Proves that a graph computes for each of so many calls what that of a single call does. Says where the outputs of a call are found.
fn compare(
    context: &Context,
    forms: &[Form],
    single: &Whole,
    inputs: &[Share],
    (calls, batch): (usize, &Whole),
) -> std::result::Result<Vec<Out>, Obstacle> {
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
    let found = batch.outputs.iter().zip(&single.outputs).map(|outputs| match outputs {
        // A call has it alone; what its batch has instead may count all calls.
        (_, Produced::Constant(constant)) => Some(Out::Constant(constant.clone())),
        (Produced::Register(register), Produced::Register(alone)) if register != alone => None,
        (Produced::Register(register), _) if *register < batch.first_output => {
            input_of(forms, *register).map(Out::Input)
        }
        (Produced::Register(register), _) => {
            let output = register - batch.first_output;
            made.get(output).map(|share| Out::Plan(output, *share))
        }
        _ => None,
    });
    let found: Option<Vec<Out>> = found.collect();
    found.ok_or_else(|| Obstacle::of("an output is no tensor"))
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
    let same =
        |found: &Proof| found.grows == proof.grows && same_outputs(&found.outputs, &proof.outputs);
    Ok(found.as_ref().is_ok_and(same))
}

/// Whether outputs are found in the same places. Constants are those of a call.
pub(super) fn same_outputs(some: &[Out], others: &[Out]) -> bool {
    let same = |(a, b): (&Out, &Out)| match (a, b) {
        (Out::Plan(a, x), Out::Plan(b, y)) => a == b && x == y,
        (Out::Input(a), Out::Input(b)) => a == b,
        (Out::Constant(_), Out::Constant(_)) => true,
        _ => false,
    };
    some.len() == others.len() && some.iter().zip(others).all(same)
}

/// A way in which a call may be a batch of calls of one row.
pub(super) struct ByRows {
    /// How its inputs are shared by its rows.
    pub shares: Vec<Share>,
    /// The forms of a call of one row.
    pub unit: Vec<Form>,
    pub rows: usize,
}

/// Ways in which calls of these forms may be batches of calls of one row, the likeliest first.
pub(super) fn ways_by_rows(context: &Context, forms: &[Form]) -> Vec<ByRows> {
    if context.batching.assumed_axis.is_some() {
        // What was assumed are calls, and not what they are made of.
        return Vec::new();
    }
    let by_rows = |shares: Vec<Share>| {
        let rows = rows_of(context, forms, &shares)?;
        let unit = forms.iter().zip(&shares).map(|(form, share)| match (form, share) {
            (Form::Tensor(spec), Share::Parts(axis)) => {
                let mut shape = spec.shape().to_vec();
                *shape.get_mut(*axis)? /= rows;
                TensorSpec::new(spec.dtype(), &shape).ok().map(Form::Tensor)
            }
            _ => Some(form.clone()),
        });
        let unit = unit.collect::<Option<_>>()?;
        Some(ByRows { shares, unit, rows })
    };
    ways(context, forms).into_iter().filter_map(by_rows).collect()
}

/// How many rows a call of these forms has at most, if it has several and two such calls fit in a batch.
fn rows_of(context: &Context, forms: &[Form], shares: &[Share]) -> Option<usize> {
    let mut rows = 0;
    for ((port, form), share) in context.ports.iter().zip(forms).zip(shares) {
        let (Form::Tensor(spec), Share::Parts(axis)) = (form, share) else { continue };
        // Where the model says how many there are, all calls have as many.
        if let ValueType::Tensor(_, Some(dims)) = &port.declared
            && matches!(dims.get(*axis), Some(Dim::Known(_)))
        {
            return None;
        }
        rows = common_divisor(rows, *spec.shape().get(*axis)?);
    }
    (rows > 1 && rows <= context.batching.most / 2).then_some(rows)
}

/// The greatest common divisor, where zero is divided by every number.
fn common_divisor(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Proves that a call of these forms computes, as it runs alone, each of its rows as a call of one row is computed. Says where its
/// outputs are found.
pub(super) fn outputs_by_rows(context: &Context, forms: &[Form], way: &ByRows) -> Option<Vec<Out>> {
    let (single, call) = (graph(context, &way.unit, None).ok()?, graph(context, forms, None).ok()?);
    let outputs = compare(context, &way.unit, &single, &way.shares, (way.rows, &call)).ok()?;
    // Nothing of a constant belongs to a row.
    let same = |outputs: (&Produced, &Produced)| match outputs {
        (Produced::Constant(a), Produced::Constant(b)) => {
            same_constant(a, b, &context.settings.folder)
        }
        (Produced::Constant(_), _) | (_, Produced::Constant(_)) => false,
        _ => true,
    };
    call.outputs.iter().zip(&single.outputs).all(same).then_some(outputs)
}

/// Whether calls of these forms may be of the same rows, but of another number of them: the first axis of some input differs, and
/// nothing but one axis of each.
pub(super) fn differ_in_rows(some: &[Form], others: &[Form]) -> bool {
    let mut is_other = false;
    let mut alike = |(a, b): (&Form, &Form)| {
        let (Form::Tensor(a), Form::Tensor(b)) = (a, b) else { return a == b };
        let (x, y) = (a.shape(), b.shape());
        let differing = x.iter().zip(y).filter(|(x, y)| x != y).count();
        is_other |= x.first() != y.first();
        a.dtype() == b.dtype() && x.len() == y.len() && differing <= 1
    };
    some.len() == others.len() && some.iter().zip(others).all(&mut alike) && is_other
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
