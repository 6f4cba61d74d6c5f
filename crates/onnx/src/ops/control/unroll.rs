//! Loops whose iterations all stand in the graph.
//!
//! The node of a loop becomes a small body of two nodes: one iteration, and what comes behind it, which is either the end or such a
//! body again. So an iteration is only put in place when it is known that there is one.

use std::sync::Arc;

use millstream_graph::{
    Array, Body, Edge, Expanded, Expander, HostOperator, Operator, Sizes, Stop, Value, ValueId,
    ValueType, View,
};

use super::super::common::{refusal, refuse, reshape, slice};
use crate::Result;

/// Iterations that a loop may have to be put in place.
const MAX_TRIPS: u64 = 64;

/// Nodes that all iterations of a loop may have together to be put in place.
const MAX_NODES: u64 = 2048;

/// Which axis is iterated over, and from which end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Along {
    pub axis: i64,
    pub backwards: bool,
}

/// A loop: what its body takes and makes.
#[derive(Debug)]
pub(super) struct Iterated {
    pub kind: &'static str,
    /// Its inputs are the number of the iteration and a condition if the loop is `counted`; what is carried from one iteration to
    /// the next; a part of each input that is iterated over; and what it reads of the surrounding body. Its outputs are a
    /// condition if the loop is `counted`, what is carried, and parts of results.
    pub body: Arc<Body>,
    pub counted: bool,
    /// Shapes of the number and of the condition: some bodies want one element along an axis.
    pub count_shapes: [Sizes; 2],
    pub carried: usize,
    /// Inputs that are iterated over.
    pub inputs: Vec<Along>,
    /// Results that are made part by part.
    pub outputs: Vec<Along>,
    /// How many values the body reads of the surrounding body.
    pub captured: usize,
    /// What the parts of results are declared to be.
    pub declared: Vec<ValueType>,
}

/// Where a loop stands, and what goes on from there if nobody knows before a call whether it does.
#[derive(Clone, Copy, Debug)]
struct Counter {
    at: u64,
    trips: u64,
}

impl Counter {
    fn value(self, at: &mut Expander<'_>) -> Expanded<Value> {
        let array = Array::vector(&[self.at as i64, self.trips as i64])?;
        Ok(Value::Tensor(at.constant(array)))
    }

    fn read(at: &Expander<'_>, value: &Value) -> Expanded<Self> {
        match at.integers(value.tensor()?)?[..] {
            [at, trips] => Ok(Self { at: at as u64, trips: trips as u64 }),
            _ => refuse("a loop has lost its count"),
        }
    }
}

impl Iterated {
    /// Whether so many iterations are put in place.
    pub fn is_short(&self, trips: u64) -> bool {
        let nodes = self.body.nodes().len().max(1) as u64;
        trips <= MAX_TRIPS && trips.saturating_mul(nodes) <= MAX_NODES
    }

    fn results(&self) -> usize {
        self.carried + self.outputs.len()
    }

    /// The loop with this number of iterations in the place of its node: `values` are what is carried, inputs that are iterated
    /// over, and what is captured. If a condition turns out to be a call's, `host` goes on.
    pub fn unroll(
        self: &Arc<Self>,
        at: &mut Expander<'_>,
        trips: u64,
        values: Vec<Value>,
        host: Option<&Arc<dyn HostOperator>>,
    ) -> Expanded<Vec<Value>> {
        if trips == 0 {
            let mut results: Vec<Value> = values[..self.carried].to_vec();
            for (output, declared) in self.outputs.iter().zip(&self.declared) {
                results.push(Value::Tensor(nothing(at, *output, declared)?));
            }
            return Ok(results);
        }
        let mut given = vec![Counter { at: 0, trips }.value(at)?];
        given.extend(values);
        given.extend(self.outputs.iter().map(|_| Value::Sequence(Vec::new())));
        Err(Stop::Inline(Arc::new(self.step(host)), given))
    }

    /// One iteration and what comes behind it. Its inputs are the count, what is carried, inputs that are iterated over, what is
    /// captured, and the parts of results so far.
    fn step(self: &Arc<Self>, host: Option<&Arc<dyn HostOperator>>) -> Body {
        let mut body = Body::new();
        let new = |body: &mut Body, name: &str, count: usize| -> Vec<ValueId> {
            (0..count).map(|_| body.add_value(name)).collect()
        };
        let constants = self.inputs.len() + self.captured;
        let first = new(&mut body, "carried", 1 + self.carried + constants);
        let parts = new(&mut body, "parts", self.outputs.len());
        for &value in first.iter().chain(&parts) {
            body.add_input(value, ValueType::Unknown, None);
        }
        let made = new(&mut body, "made", usize::from(self.counted) + self.results());
        let some = |values: &[ValueId]| values.iter().map(|&value| Some(value)).collect::<Vec<_>>();
        let iteration = Box::new(Iteration(Arc::clone(self)));
        body.add_node(self.kind, iteration, some(&first), some(&made));
        let mut next = vec![first[0]];
        next.extend(&made);
        next.extend(&parts);
        next.extend(&first[1 + self.carried..]);
        let results = new(&mut body, "result", self.results());
        let rest = Box::new(AfterIteration { of: Arc::clone(self), host: host.cloned() });
        body.add_node(self.kind, rest, some(&next), some(&results));
        for result in results {
            body.add_output("result", result, ValueType::Unknown);
        }
        body
    }
}

/// The result of a loop without iterations. Sizes that are not declared are 0.
pub(super) fn nothing(at: &mut Expander<'_>, along: Along, declared: &ValueType) -> Expanded<Edge> {
    let (dtype, shape) = empty_shape(along, declared)?;
    Ok(at.constant(Array::new(dtype, &shape, Vec::new())?))
}

/// Type and shape of the result of a loop without iterations.
pub(super) fn empty_shape(
    along: Along,
    declared: &ValueType,
) -> Result<(millstream_core::DType, Sizes)> {
    let ValueType::Tensor(dtype, dims) = declared else {
        return Err(refusal("nothing says what the result of a loop without iterations is"));
    };
    let mut shape: Sizes = dims.iter().flatten().map(known_size).collect();
    let axis = place(along.axis, shape.len() + 1)?;
    shape.insert(axis, 0);
    Ok((*dtype, shape))
}

fn known_size(dim: &millstream_graph::Dim) -> usize {
    match dim {
        millstream_graph::Dim::Known(size) => *size,
        millstream_graph::Dim::Named(_) | millstream_graph::Dim::Unknown => 0,
    }
}

/// An axis counted from the front.
pub(super) fn place(axis: i64, rank: usize) -> Result<usize> {
    let counted = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
    match usize::try_from(counted) {
        Ok(counted) if counted < rank => Ok(counted),
        _ => Err(refusal(format!("axis {axis} of a tensor of rank {rank}"))),
    }
}

/// The body, once.
#[derive(Debug)]
struct Iteration(Arc<Iterated>);

impl Operator for Iteration {
    fn kind(&self) -> &str {
        self.0.kind
    }

    fn expand(&self, at: &mut Expander<'_>, inputs: &[Option<Value>]) -> Expanded<Vec<Value>> {
        let of = &self.0;
        let inputs: Option<Vec<Value>> = inputs.iter().cloned().collect();
        let Some(inputs) = inputs else { return refuse("a value of a loop is not given") };
        let counter = Counter::read(at, &inputs[0])?;
        let (carried, rest) = inputs[1..].split_at(of.carried);
        let (iterated, captured) = rest.split_at(of.inputs.len());
        let mut formal = Vec::new();
        if of.counted {
            let [number, condition] = &of.count_shapes;
            let number = Array::from_slice(&[counter.at as i64], number)?;
            formal.push(Value::Tensor(at.constant(number)));
            formal.push(Value::Tensor(at.constant(Array::truth(true).reshaped(condition)?)));
        }
        formal.extend_from_slice(carried);
        for (value, along) in iterated.iter().zip(&of.inputs) {
            let whole = value.tensor()?;
            let mut shape = at.shape(whole);
            let axis = place(along.axis, shape.len())?;
            let steps = shape.remove(axis);
            let index = counter.at as usize;
            let index = if along.backwards { steps.saturating_sub(index + 1) } else { index };
            let part = slice(at, whole, axis, index, 1)?;
            formal.push(Value::Tensor(reshape(at, part, &shape)?));
        }
        formal.extend_from_slice(captured);
        Err(Stop::Inline(Arc::clone(&of.body), formal))
    }
}

/// What comes behind an iteration.
#[derive(Debug)]
struct AfterIteration {
    of: Arc<Iterated>,
    host: Option<Arc<dyn HostOperator>>,
}

impl Operator for AfterIteration {
    fn kind(&self) -> &str {
        self.of.kind
    }

    fn expand(&self, at: &mut Expander<'_>, inputs: &[Option<Value>]) -> Expanded<Vec<Value>> {
        let of = &self.of;
        let inputs: Option<Vec<Value>> = inputs.iter().cloned().collect();
        let Some(inputs) = inputs else { return refuse("a value of a loop is not given") };
        let counter = Counter::read(at, &inputs[0])?;
        let mut made = &inputs[1..];
        let mut goes_on = counter.at + 1 < counter.trips;
        if of.counted {
            let condition = made[0].tensor()?;
            made = &made[1..];
            if goes_on && !at.is_constant(condition) {
                return match &self.host {
                    Some(host) => Err(Stop::Host(Arc::clone(host))),
                    None => Err(Stop::Content(condition)),
                };
            }
            goes_on = goes_on && at.scalar(condition)?.as_bool();
        }
        let (carried, rest) = made.split_at(of.carried);
        let (new, rest) = rest.split_at(of.outputs.len());
        let (parts, constants) = rest.split_at(of.outputs.len());
        let mut collected = Vec::with_capacity(parts.len());
        for (parts, new) in parts.iter().zip(new) {
            let Value::Sequence(parts) = parts else { return refuse("parts of a loop are lost") };
            let mut parts = parts.clone();
            parts.push(new.clone());
            collected.push(parts);
        }
        if goes_on {
            let mut given = vec![Counter { at: counter.at + 1, ..counter }.value(at)?];
            given.extend_from_slice(carried);
            given.extend_from_slice(constants);
            given.extend(collected.into_iter().map(Value::Sequence));
            return Err(Stop::Inline(Arc::new(of.step(self.host.as_ref())), given));
        }
        let mut results = carried.to_vec();
        for (parts, along) in collected.iter().zip(&of.outputs) {
            results.push(Value::Tensor(joined(at, parts, *along)?));
        }
        Ok(results)
    }
}

/// Parts of a result, one behind the other along a new axis.
fn joined(at: &mut Expander<'_>, parts: &[Value], along: Along) -> Expanded<Edge> {
    let mut edges = Vec::with_capacity(parts.len());
    let mut axis = 0;
    for part in parts {
        let part = part.tensor()?;
        let mut shape = at.shape(part);
        axis = place(along.axis, shape.len() + 1)?;
        shape.insert(axis, 1);
        edges.push(at.view(View::Reshape(shape), part)?);
    }
    if along.backwards {
        edges.reverse();
    }
    at.concat(axis, &edges)
}
