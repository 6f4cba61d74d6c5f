//! A Scan that the host runs, several iterations at a time: the plan of a program has that many of them in place.

use std::sync::Arc;
use std::time::Instant;

use millstream_graph::{HostCall, HostOperator, HostStep, HostValue, Program};
use millstream_nn::Tensor;

use super::super::common::refusal;
use super::collect::Collected;
use super::counted::whole;
use super::scan::in_place;
use super::unroll::{Iterated, place};
use crate::Result;

/// Iterations in a program, at most.
const MAX_CHUNK: usize = 64;

/// Nodes in a program, about.
const CHUNK_NODES: usize = 512;

/// A Scan over any number of iterations.
#[derive(Debug)]
pub(super) struct Chunks {
    of: Arc<Iterated>,
    program: Arc<Program>,
}

impl Chunks {
    pub fn new(of: &Arc<Iterated>) -> Self {
        Self { of: Arc::clone(of), program: Arc::new(Program::new(in_place(of))) }
    }

    pub fn of(&self) -> &Arc<Iterated> {
        &self.of
    }

    /// All iterations over these values: what is carried, what is iterated over, and what is captured. `then` gets what is carried
    /// behind the last, and the results.
    pub fn scan(&self, call: &HostCall<'_>, given: Vec<HostValue>, then: Then) -> Result<HostStep> {
        let of = &self.of;
        let mut given = given.into_iter();
        let carried = given.by_ref().take(of.carried).collect();
        let mut iterated = Vec::with_capacity(of.inputs.len());
        let mut trips = None;
        for (value, along) in given.by_ref().take(of.inputs.len()).zip(&of.inputs) {
            let tensor = value.tensor(call)?;
            let steps = tensor.dim(place(along.axis, tensor.rank())?)?;
            if *trips.get_or_insert(steps) != steps {
                return Err(refusal(format!("{trips:?} and {steps} elements are iterated over")));
            }
            iterated.push(tensor);
        }
        let nodes = of.body.nodes().len().max(1);
        let chunk = (CHUNK_NODES / nodes).clamp(1, MAX_CHUNK);
        let state = State {
            carried,
            iterated,
            captured: given.map(whole).collect(),
            collected: of.outputs.iter().map(|along| Collected::new(*along)).collect(),
            at: 0,
            trips: trips.unwrap_or(0),
            chunk: 1 << chunk.ilog2(),
            started: Instant::now(),
            of: Arc::clone(of),
            program: Arc::clone(&self.program),
            then,
        };
        state.next(call)
    }
}

impl HostOperator for Chunks {
    fn reads(&self, _: usize) -> bool {
        false
    }

    fn run(&self, call: &HostCall<'_>, inputs: Vec<Option<HostValue>>) -> Result<HostStep> {
        let given: Option<Vec<HostValue>> = inputs.into_iter().collect();
        let Some(given) = given else { return Err(refusal("a value is not given")) };
        self.scan(call, given, Box::new(|_, results| Ok(HostStep::Done(results))))
    }
}

/// What is done with the results of a scan.
pub(super) type Then = millstream_graph::Resume<Vec<HostValue>>;

/// A scan on its way.
struct State {
    of: Arc<Iterated>,
    program: Arc<Program>,
    carried: Vec<HostValue>,
    iterated: Vec<Tensor>,
    captured: Vec<HostValue>,
    collected: Vec<Collected>,
    /// Iterations that are done.
    at: usize,
    trips: usize,
    /// Iterations that are done at a time: a power of two.
    chunk: usize,
    started: Instant,
    then: Then,
}

impl State {
    fn next(mut self, call: &HostCall<'_>) -> Result<HostStep> {
        let left = self.trips - self.at;
        if left == 0 {
            let mut results = self.carried;
            for (collected, declared) in self.collected.into_iter().zip(&self.of.declared) {
                results.push(collected.finish(call, declared)?);
            }
            return (self.then)(call, results);
        }
        let limits = call.limits();
        if self.trips as u64 > limits.trips {
            return Err(refusal(format!(
                "{} iterations, at most {} are made",
                self.trips, limits.trips
            )));
        }
        if self.started.elapsed() > limits.loop_time {
            let (at, time) = (self.at, limits.loop_time);
            return Err(refusal(format!("it goes on after {time:?} and {at} iterations")));
        }
        // What is left at the end is cut into powers of two, so that there are few programs.
        let count = self.chunk.min(1 << left.ilog2());
        let mut inputs = Vec::new();
        for value in std::mem::take(&mut self.carried) {
            inputs.push(whole(value.unbound(call)?));
        }
        for (tensor, along) in self.iterated.iter().zip(&self.of.inputs) {
            let axis = place(along.axis, tensor.rank())?;
            let start = if along.backwards { left - count } else { self.at };
            inputs.push(tensor.narrow(axis, start, count)?.into());
        }
        inputs.extend(self.captured.iter().cloned());
        let program = Arc::clone(&self.program);
        let then = Box::new(move |call: &HostCall<'_>, made: Vec<HostValue>| {
            self.at += count;
            let mut made = made.into_iter();
            self.carried = made.by_ref().take(self.of.carried).collect();
            for (collected, piece) in self.collected.iter_mut().zip(made) {
                collected.push_piece(piece.tensor(call)?)?;
            }
            self.next(call)
        });
        Ok(HostStep::Run { program, inputs, then })
    }
}
