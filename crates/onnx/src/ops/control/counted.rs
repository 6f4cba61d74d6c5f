//! Loop.

use std::sync::Arc;
use std::time::Instant;

use millstream_graph::{
    Array, Constant, HostCall, HostOperator, HostStep, HostValue, ModelValue, Operator, Program,
    Sizes, Stop, Value, ValueType,
};

use super::super::common::refusal;
use super::collect::Collected;
use super::unroll::{Along, Iterated};
use crate::Result;
use crate::node::{NodeDef, operator};

pub(super) fn counted(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let body = node.body("body")?;
    let carried = node.inputs().saturating_sub(2);
    let captured = body.captured.len();
    let (formal, made) = (body.body.inputs().len() - captured, body.body.outputs().len());
    if formal != carried + 2 || made < carried + 1 {
        let reason = format!(
            "a body of {formal} inputs and {made} outputs for a loop that carries {carried} values"
        );
        return Err(refusal(reason));
    }
    let count_shapes = [0, 1].map(|index| match &body.body.inputs()[index].declared {
        ValueType::Tensor(_, Some(dims)) if dims.len() == 1 => Sizes::from_slice(&[1]),
        _ => Sizes::new(),
    });
    let truth = Constant::new(Array::truth(true).reshaped(&count_shapes[1])?);
    let declared = body.body.outputs()[carried + 1..].iter().map(|port| port.declared.clone());
    let of = Arc::new(Iterated {
        kind: "Loop",
        body: Arc::clone(&body.body),
        counted: true,
        count_shapes,
        carried,
        inputs: Vec::new(),
        outputs: vec![Along::default(); made - carried - 1],
        captured,
        declared: declared.collect(),
    });
    let program = Arc::new(Program::new(Arc::clone(&body.body)));
    let definition = Arc::new(Definition { of: Arc::clone(&of), program, truth });
    let start: Arc<dyn HostOperator> = Arc::new(Start(Arc::clone(&definition)));
    let rest: Arc<dyn HostOperator> = Arc::new(AfterIteration(definition));
    operator(node, move |at, inputs| {
        let trips = match inputs.optional(0)? {
            // An empty tensor is as good as none.
            Some(edge) if at.is_constant(edge) => match at.integers(edge)?[..] {
                [] => Some(u64::MAX),
                [trips, ..] => Some(trips.max(0) as u64),
            },
            Some(_) => None,
            None => Some(u64::MAX),
        };
        let condition = match inputs.optional(1)? {
            Some(edge) if at.is_constant(edge) => Some(truth_of(&at.content(edge)?)?),
            Some(_) => None,
            None => Some(true),
        };
        let trips = if condition == Some(false) { Some(0) } else { trips };
        match (trips, condition) {
            (Some(trips), Some(_)) if of.is_short(trips) => {
                let carried = (2..2 + carried).map(|index| inputs.required(index).cloned());
                let carried = carried.collect::<std::result::Result<Vec<Value>, Stop>>()?;
                of.unroll(at, trips, body.values(carried, inputs)?, Some(&rest))
            }
            _ => Err(Stop::Host(Arc::clone(&start))),
        }
    })
}

/// A condition. None is as good as true.
fn truth_of(array: &Array) -> Result<bool> {
    if array.elements() == 0 {
        return Ok(true);
    }
    Ok(array.to_scalar()?.as_bool())
}

/// A loop that the host runs.
#[derive(Debug)]
struct Definition {
    of: Arc<Iterated>,
    program: Arc<Program>,
    truth: Constant,
}

/// From the first iteration on. The inputs are those of the node.
#[derive(Debug)]
struct Start(Arc<Definition>);

impl HostOperator for Start {
    fn reads(&self, _: usize) -> bool {
        false
    }

    fn run(&self, call: &HostCall<'_>, inputs: Vec<Option<HostValue>>) -> Result<HostStep> {
        let definition = Arc::clone(&self.0);
        let of = &definition.of;
        let mut inputs = inputs.into_iter();
        let (trips, condition) = (inputs.next().flatten(), inputs.next().flatten());
        let given: Option<Vec<HostValue>> = inputs.collect();
        let Some(mut given) = given else { return Err(refusal("a value is not given")) };
        let captured = given.split_off(of.carried);
        let state = State {
            at: 0,
            trips: u64::MAX,
            carried: given,
            captured: captured.into_iter().map(whole).collect(),
            collected: of.outputs.iter().map(|along| Collected::new(*along)).collect(),
            started: Instant::now(),
            definition,
        };
        // The number of iterations and the first condition, from the host or from the device.
        let asked = [trips, condition];
        let mut known = [None, None];
        let mut tensors = Vec::new();
        for (known, asked) in known.iter_mut().zip(&asked) {
            if let Some(value) = asked {
                *known = value.content(call)?;
                if known.is_none() {
                    tensors.push(value.tensor(call)?);
                }
            }
        }
        let begin = move |call: &HostCall<'_>, read: Vec<Array>| {
            let mut state = state;
            let mut read = read.into_iter();
            for (known, asked) in known.iter_mut().zip(&asked) {
                if known.is_none() && asked.is_some() {
                    *known = read.next();
                }
            }
            if let Some(trips) = &known[0]
                && let [trips, ..] = trips.to_i64s()?[..]
            {
                state.trips = trips.max(0) as u64;
            }
            let goes_on = known[1].as_ref().map_or(Ok(true), truth_of)?;
            if goes_on { state.next(call) } else { state.finish(call) }
        };
        if tensors.is_empty() {
            return begin(call, Vec::new());
        }
        Ok(HostStep::Read { tensors, then: Box::new(begin) })
    }
}

/// Behind iterations that were put in place. The inputs are those of what comes behind an iteration.
#[derive(Debug)]
struct AfterIteration(Arc<Definition>);

impl HostOperator for AfterIteration {
    fn reads(&self, _: usize) -> bool {
        false
    }

    fn run(&self, call: &HostCall<'_>, inputs: Vec<Option<HostValue>>) -> Result<HostStep> {
        let definition = Arc::clone(&self.0);
        let of = &definition.of;
        let given: Option<Vec<HostValue>> = inputs.into_iter().collect();
        let Some(given) = given else { return Err(refusal("a value is not given")) };
        let mut given = given.into_iter();
        let mut take = |count: usize| given.by_ref().take(count).collect::<Vec<HostValue>>();
        let (counter, made) = (take(1), take(1 + of.carried + of.outputs.len()));
        let (parts, captured) = (take(of.outputs.len()), take(of.captured));
        let (at, trips) = match counter.first().map(|counter| counter.array(call)?.to_i64s()) {
            Some(Ok(count)) if count.len() == 2 => (count[0] as u64, count[1] as u64),
            _ => return Err(refusal("a loop has lost its count")),
        };
        let mut collected = Vec::with_capacity(parts.len());
        for (parts, along) in parts.into_iter().zip(&of.outputs) {
            let mut so_far = Collected::new(*along);
            for part in parts.sequence()?.iter() {
                let HostValue::Value(ModelValue::Tensor(part)) = HostValue::from(part.clone())
                else {
                    return Err(refusal("a part of a result is no tensor"));
                };
                so_far.push(part)?;
            }
            collected.push(so_far);
        }
        let state = State {
            at,
            trips,
            carried: Vec::new(),
            captured: captured.into_iter().map(whole).collect(),
            collected,
            started: Instant::now(),
            definition,
        };
        state.take(call, made)
    }
}

/// A loop on its way.
struct State {
    definition: Arc<Definition>,
    /// Iterations that were begun.
    at: u64,
    trips: u64,
    carried: Vec<HostValue>,
    captured: Vec<HostValue>,
    collected: Vec<Collected>,
    started: Instant,
}

/// A sequence that programs are not compiled for the length of.
pub(super) fn whole(value: HostValue) -> HostValue {
    match value {
        HostValue::Value(ModelValue::Sequence(values)) => HostValue::Whole(Arc::new(values)),
        other => other,
    }
}

impl State {
    /// The next iteration, or the end.
    fn next(mut self, call: &HostCall<'_>) -> Result<HostStep> {
        if self.at >= self.trips {
            return self.finish(call);
        }
        let limits = call.limits();
        if self.at >= limits.trips {
            return Err(refusal(format!("the loop goes on after {} iterations", limits.trips)));
        }
        if self.started.elapsed() > limits.loop_time {
            let (at, time) = (self.at, limits.loop_time);
            return Err(refusal(format!("the loop goes on after {time:?} and {at} iterations")));
        }
        let truth = self.definition.truth.clone();
        let number = Array::from_slice(&[self.at as i64], &self.definition.of.count_shapes[0])?;
        let mut inputs = vec![number.into(), HostValue::Constant(truth)];
        for value in std::mem::take(&mut self.carried) {
            // A constant would make a program of its own.
            inputs.push(whole(value.unbound(call)?));
        }
        inputs.extend(self.captured.iter().cloned());
        let program = Arc::clone(&self.definition.program);
        let then = Box::new(move |call: &HostCall<'_>, made| self.take(call, made));
        Ok(HostStep::Run { program, inputs, then })
    }

    /// What an iteration made.
    fn take(mut self, call: &HostCall<'_>, made: Vec<HostValue>) -> Result<HostStep> {
        self.at += 1;
        let mut made = made.into_iter();
        let Some(condition) = made.next() else { return Err(refusal("there is no condition")) };
        self.carried = made.by_ref().take(self.definition.of.carried).collect();
        for (collected, part) in self.collected.iter_mut().zip(made) {
            collected.push(part.tensor(call)?)?;
        }
        // Whether it goes on need not be known where it ends anyway.
        if self.at >= self.trips {
            return self.finish(call);
        }
        match condition.content(call)? {
            Some(condition) => self.decide(call, &condition),
            None => {
                let tensors = vec![condition.tensor(call)?];
                let then =
                    Box::new(move |call: &HostCall<'_>, read: Vec<Array>| match read.first() {
                        Some(condition) => self.decide(call, condition),
                        None => Err(refusal("there is no condition")),
                    });
                Ok(HostStep::Read { tensors, then })
            }
        }
    }

    fn decide(self, call: &HostCall<'_>, condition: &Array) -> Result<HostStep> {
        if truth_of(condition)? { self.next(call) } else { self.finish(call) }
    }

    fn finish(self, call: &HostCall<'_>) -> Result<HostStep> {
        let mut results: Vec<HostValue> = self.carried.into_iter().map(whole).collect();
        let declared = &self.definition.of.declared;
        for (collected, declared) in self.collected.into_iter().zip(declared) {
            results.push(collected.finish(call, declared)?);
        }
        Ok(HostStep::Done(results))
    }
}
