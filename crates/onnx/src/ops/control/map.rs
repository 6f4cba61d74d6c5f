//! SequenceMap.

use std::sync::Arc;

use millstream_graph::{
    Body, Expanded, Expander, HostCall, HostOperator, HostStep, HostValue, ModelValue, Operator,
    Program, Stop, Value, ValueType,
};

use super::super::common::{refusal, refuse};
use crate::Result;
use crate::node::{NodeDef, operator};

pub(super) fn sequence_map(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let body = node.body("body")?;
    let own = node.inputs();
    let formal = body.body.inputs().len() - body.captured.len();
    if formal != own || own == 0 {
        return Err(refusal(format!("a body of {formal} inputs for {own} values")));
    }
    let program = Arc::new(Program::new(Arc::clone(&body.body)));
    let outputs = body.body.outputs().len();
    let host: Arc<dyn HostOperator> = Arc::new(Mapped { program, own, outputs });
    operator(node, move |_, inputs| {
        let formal = (0..own).map(|index| inputs.required(index).cloned());
        let values = body.values(formal.collect::<Expanded<Vec<Value>>>()?, inputs)?;
        let Value::Sequence(elements) = &values[0] else {
            return Err(Stop::Host(Arc::clone(&host)));
        };
        // Tensors are given to all; sequences part by part.
        let mut rows = Vec::with_capacity(elements.len());
        for index in 0..elements.len() {
            let mut row = Vec::with_capacity(values.len());
            for (at, value) in values.iter().enumerate() {
                row.push(match value {
                    Value::Sequence(values) if at < own => match values.get(index) {
                        Some(value) => value.clone(),
                        None => return refuse("sequences of different lengths"),
                    },
                    Value::Opaque(_) if at < own => return Err(Stop::Host(Arc::clone(&host))),
                    other => other.clone(),
                });
            }
            rows.push(row);
        }
        let all = in_place(&body.body, rows.len());
        Err(Stop::Inline(Arc::new(all), rows.into_iter().flatten().collect()))
    })
}

/// A body so many times, and the sequences of what it made.
fn in_place(body: &Arc<Body>, times: usize) -> Body {
    let mut all = Body::new();
    let mut made = Vec::with_capacity(times * body.outputs().len());
    for _ in 0..times {
        let mut inputs = Vec::with_capacity(body.inputs().len());
        for port in body.inputs() {
            let value = all.add_value(&port.name);
            all.add_input(value, ValueType::Unknown, None);
            inputs.push(Some(value));
        }
        let outputs: Vec<_> =
            body.outputs().iter().map(|port| Some(all.add_value(&port.name))).collect();
        made.extend(&outputs);
        all.add_node("SequenceMap", Box::new(Once(Arc::clone(body))), inputs, outputs);
    }
    let results: Vec<_> = body.outputs().iter().map(|port| all.add_value(&port.name)).collect();
    let some = results.iter().map(|&result| Some(result)).collect();
    let collect = Collect { outputs: results.len() };
    all.add_node("SequenceMap", Box::new(collect), made, some);
    for result in results {
        all.add_output("result", result, ValueType::Unknown);
    }
    all
}

#[derive(Debug)]
struct Once(Arc<Body>);

impl Operator for Once {
    fn kind(&self) -> &str {
        "SequenceMap"
    }

    fn expand(&self, _: &mut Expander<'_>, inputs: &[Option<Value>]) -> Expanded<Vec<Value>> {
        let values: Option<Vec<Value>> = inputs.iter().cloned().collect();
        match values {
            Some(values) => Err(Stop::Inline(Arc::clone(&self.0), values)),
            None => refuse("a value is not given"),
        }
    }
}

#[derive(Debug)]
struct Collect {
    outputs: usize,
}

impl Operator for Collect {
    fn kind(&self) -> &str {
        "SequenceMap"
    }

    fn expand(&self, _: &mut Expander<'_>, inputs: &[Option<Value>]) -> Expanded<Vec<Value>> {
        let sequence = |output: usize| {
            let rows = inputs.chunks_exact(self.outputs.max(1));
            Value::Sequence(rows.filter_map(|row| row[output].clone()).collect())
        };
        Ok((0..self.outputs).map(sequence).collect())
    }
}

/// A sequence of any length, which the host goes through.
#[derive(Debug)]
struct Mapped {
    program: Arc<Program>,
    own: usize,
    outputs: usize,
}

impl HostOperator for Mapped {
    fn reads(&self, _: usize) -> bool {
        false
    }

    fn run(&self, call: &HostCall<'_>, inputs: Vec<Option<HostValue>>) -> Result<HostStep> {
        let given: Option<Vec<HostValue>> = inputs.into_iter().collect();
        let Some(given) = given else { return Err(refusal("a value is not given")) };
        let is_sequence = |value: &HostValue| {
            matches!(value, HostValue::Whole(_) | HostValue::Value(ModelValue::Sequence(_)))
        };
        let mut values = Vec::with_capacity(given.len());
        for (index, value) in given.into_iter().enumerate() {
            values.push(match index < self.own && is_sequence(&value) {
                true => Given::Parts(value.sequence()?),
                false => Given::Same(value),
            });
        }
        let Some(Given::Parts(first)) = values.first() else {
            return Err(refusal("the first value is no sequence"));
        };
        let state = State {
            at: 0,
            count: first.len(),
            program: Arc::clone(&self.program),
            results: vec![Vec::new(); self.outputs],
            values,
        };
        state.next(call)
    }
}

/// What a body gets.
enum Given {
    Parts(Arc<Vec<ModelValue>>),
    Same(HostValue),
}

struct State {
    program: Arc<Program>,
    at: usize,
    count: usize,
    values: Vec<Given>,
    results: Vec<Vec<ModelValue>>,
}

impl State {
    fn next(mut self, _: &HostCall<'_>) -> Result<HostStep> {
        if self.at == self.count {
            let results = self.results.into_iter();
            let results = results.map(|values| HostValue::Whole(Arc::new(values)));
            return Ok(HostStep::Done(results.collect()));
        }
        let mut inputs = Vec::with_capacity(self.values.len());
        for value in &self.values {
            inputs.push(match value {
                Given::Same(value) => value.clone(),
                Given::Parts(parts) => match parts.get(self.at) {
                    Some(part) => part.clone().into(),
                    None => return Err(refusal("sequences of different lengths")),
                },
            });
        }
        self.at += 1;
        let program = Arc::clone(&self.program);
        let then = Box::new(move |call: &HostCall<'_>, made: Vec<HostValue>| {
            for (results, value) in self.results.iter_mut().zip(made) {
                results.push(value.into_value(call)?);
            }
            self.next(call)
        });
        Ok(HostStep::Run { program, inputs, then })
    }
}
