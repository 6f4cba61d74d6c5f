//! Sessions whose calls are joined. Here is what the tests share: models, and calls that are held until others queue.

mod assumptions;
mod batches;
mod ends;
mod faults;
mod many_threads;
mod proofs;
mod quantized;
mod rows;

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_core::{BinaryOp, DType, Device, Epilogue, Op, ReduceOp, UnaryOp};
use millstream_nn::Tensor;

use crate::expand::{Expanded, Expander, Value};
use crate::model::{Body, Dim, Operator, ValueType};
use crate::{Array, Batching, Call, Constant, HostValue, Joinable, Outputs, Session, Submitted};

/// An operator that applies one operation.
#[derive(Debug)]
struct Apply(Op);

impl Operator for Apply {
    fn kind(&self) -> &str {
        "Apply"
    }

    fn expand(&self, at: &mut Expander<'_>, inputs: &[Option<Value>]) -> Expanded<Vec<Value>> {
        let edges =
            inputs.iter().flatten().map(Value::tensor).collect::<crate::Result<Vec<_>>>()?;
        Ok(vec![at.apply(self.0.clone(), &edges)?.into()])
    }
}

/// Multiplies by the number of rows, which a batch has more of.
#[derive(Debug)]
struct TimesRows;

impl Operator for TimesRows {
    fn kind(&self) -> &str {
        "TimesRows"
    }

    fn expand(&self, at: &mut Expander<'_>, inputs: &[Option<Value>]) -> Expanded<Vec<Value>> {
        let x = inputs[0].as_ref().expect("an input").tensor()?;
        let rows = at.constant(Array::scalar(at.shape(x)[0] as f32));
        Ok(vec![at.apply(Op::Binary { op: BinaryOp::Mul }, &[x, rows])?.into()])
    }
}

fn device() -> Device {
    Device::cpu().unwrap()
}

/// A body that is being written.
struct Writer {
    body: Body,
    nodes: usize,
}

impl Writer {
    fn new() -> Self {
        Self { body: Body::new(), nodes: 0 }
    }

    fn input(&mut self, name: &str, dtype: DType, dims: Vec<Dim>) -> crate::ValueId {
        let value = self.body.add_value(name);
        self.body.add_input(value, ValueType::Tensor(dtype, Some(dims)), None);
        value
    }

    fn constant(&mut self, array: Array) -> crate::ValueId {
        let value = self.body.add_value("constant");
        self.body.set_constant(value, Constant::new(array));
        value
    }

    fn node(
        &mut self,
        operator: impl Operator + 'static,
        inputs: &[crate::ValueId],
    ) -> crate::ValueId {
        self.nodes += 1;
        let made = self.body.add_value("made");
        let inputs = inputs.iter().copied().map(Some).collect();
        let name = format!("node{}", self.nodes);
        self.body.add_node(&name, Box::new(operator), inputs, vec![Some(made)]);
        made
    }

    fn session(self, output: crate::ValueId, batching: Batching) -> Session {
        self.session_on(&device(), output, batching)
    }

    fn session_on(
        mut self,
        device: &Device,
        output: crate::ValueId,
        batching: Batching,
    ) -> Session {
        self.body.add_output("y", output, ValueType::Tensor(DType::F32, None));
        Session::builder(device).batching(batching).build(self.body).unwrap()
    }
}

fn binary(op: BinaryOp) -> Apply {
    Apply(Op::Binary { op })
}

fn rows() -> Vec<Dim> {
    vec![Dim::Named("batch".into()), Dim::Known(8)]
}

fn joining() -> Batching {
    Batching::new().always().in_flight(1)
}

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 37 + seed * 101) % 29) as f32 * 0.13 - 1.7).collect()
}

/// A layer, a softmax and what is left of the input: answers depend on every bit of the inputs.
fn perceptron(batching: Batching) -> Session {
    perceptron_on(&device(), batching)
}

fn perceptron_on(device: &Device, batching: Batching) -> Session {
    let mut writer = Writer::new();
    let x = writer.input("x", DType::F32, rows());
    let weights = writer.constant(Array::from_slice(&numbers(64, 1), &[8, 8]).unwrap());
    let bias = writer.constant(Array::from_slice(&numbers(8, 2), &[8]).unwrap());
    let product = writer.node(Apply(Op::MatMul { epilogue: Epilogue::default() }), &[x, weights]);
    let sum = writer.node(binary(BinaryOp::Add), &[product, bias]);
    let relu = writer.node(Apply(Op::Unary { op: UnaryOp::Relu }), &[sum]);
    let soft = writer.node(Apply(Op::Softmax { axis: 1, log: false }), &[relu]);
    let y = writer.node(binary(BinaryOp::Add), &[soft, x]);
    writer.session_on(device, y, batching)
}

/// Rows of a table by their numbers. Numbers that the table does not have are faults.
fn lookup(batching: Batching) -> Session {
    let mut writer = Writer::new();
    let ids = writer.input("ids", DType::I64, vec![Dim::Named("batch".into()), Dim::Known(1)]);
    let table = writer.constant(Array::from_slice(&numbers(40, 3), &[10, 4]).unwrap());
    let y = writer.node(Apply(Op::Embedding), &[table, ids]);
    writer.session(y, batching)
}

fn tensor(values: &[f32], shape: &[usize]) -> Tensor {
    Tensor::from_slice(values, shape, &device()).unwrap()
}

fn ids(id: i64) -> Tensor {
    Tensor::from_slice(&[id], &[1, 1], &device()).unwrap()
}

fn y(outputs: &Outputs) -> Vec<f32> {
    let read = outputs.read::<f32>("y").unwrap().into_owned();
    assert_eq!(outputs.tensor("y").unwrap().to_vec::<f32>().unwrap(), read);
    read
}

/// Polls until the call has ended. A worker of the device computes meanwhile.
fn ended(submitted: &mut Submitted) -> crate::Result<Outputs> {
    let begun = Instant::now();
    loop {
        if let Some(result) = submitted.poll() {
            return result;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "the call does not end");
        std::thread::yield_now();
    }
}

/// A call that leads and does not go on yet, so that others queue.
struct Held {
    group: Arc<super::Group>,
    batch: crate::coalesce::Batch<super::group::Request, crate::Result<super::Given>>,
}

impl Held {
    fn new(session: &Session, inputs: &[&Tensor]) -> Self {
        let values: Vec<Tensor> = inputs.iter().map(|&input| input.clone()).collect();
        Self::with(session, &values[..])
    }

    fn with(session: &Session, inputs: impl Into<crate::Inputs>) -> Self {
        let values = inputs.into().arranged(session.inputs(), &session.device()).unwrap();
        let (group, rows) = session.0.joined.as_ref().unwrap().entered(&values).unwrap();
        let terms = crate::coalesce::Terms { rows, ..Default::default() };
        // A thread that led the batch before may wait for calls still.
        while !group.is_at_rest() {
            std::thread::yield_now();
        }
        // On a device that computes by itself a lone call is not led; one that comes while another runs is.
        let (values, _other) = match group.enter(values, terms, Instant::now()).unwrap() {
            super::Begun::Lead(batch) => return Self { group, batch },
            super::Begun::Alone(values, active) => (values, active),
            super::Begun::Wait(_) => panic!("nobody else calls"),
        };
        match group.enter(values, terms, Instant::now()).unwrap() {
            super::Begun::Lead(batch) => Self { group, batch },
            _ => panic!("nobody has a place"),
        }
    }

    /// Goes on, with all who have come meanwhile.
    fn go_on(self) -> Outputs {
        self.try_to_go_on().unwrap()
    }

    fn try_to_go_on(self) -> crate::Result<Outputs> {
        let answer = self.group.lead(self.batch)?;
        Ok(Outputs::of_answer(["y".to_owned()].into(), answer))
    }
}

/// Runs calls as one batch.
fn together(session: &Session, inputs: &[Tensor]) -> Vec<crate::Result<Outputs>> {
    let held = Held::new(session, &[&inputs[0]]);
    let mut calls: Vec<_> =
        inputs[1..].iter().map(|input| session.submit([input], &Call::new())).collect();
    let first = held.try_to_go_on();
    let others = calls.iter_mut().map(ended);
    [first].into_iter().chain(others).collect()
}
