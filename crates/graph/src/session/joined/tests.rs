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

    fn session(mut self, output: crate::ValueId, batching: Batching) -> Session {
        self.body.add_output("y", output, ValueType::Tensor(DType::F32, None));
        Session::builder(&device()).batching(batching).build(self.body).unwrap()
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
    let mut writer = Writer::new();
    let x = writer.input("x", DType::F32, rows());
    let weights = writer.constant(Array::from_slice(&numbers(64, 1), &[8, 8]).unwrap());
    let bias = writer.constant(Array::from_slice(&numbers(8, 2), &[8]).unwrap());
    let product = writer.node(Apply(Op::MatMul { epilogue: Epilogue::default() }), &[x, weights]);
    let sum = writer.node(binary(BinaryOp::Add), &[product, bias]);
    let relu = writer.node(Apply(Op::Unary { op: UnaryOp::Relu }), &[sum]);
    let soft = writer.node(Apply(Op::Softmax { axis: 1, log: false }), &[relu]);
    let y = writer.node(binary(BinaryOp::Add), &[soft, x]);
    writer.session(y, batching)
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
    batch: crate::coalesce::Batch<super::group::Request, crate::Result<super::Answer>>,
}

impl Held {
    fn new(session: &Session, inputs: &[&Tensor]) -> Self {
        let values: Vec<Tensor> = inputs.iter().map(|&input| input.clone()).collect();
        Self::with(session, &values[..])
    }

    fn with(session: &Session, inputs: impl Into<crate::Inputs>) -> Self {
        let values = inputs.into().arranged(session.inputs(), &session.device()).unwrap();
        let group = session.0.joined.as_ref().unwrap().group(&values).unwrap();
        let terms = crate::coalesce::Terms::default();
        match group.enter(values, terms, Instant::now()).unwrap() {
            super::Begun::Lead(batch) => Self { group, batch },
            _ => panic!("nobody else calls"),
        }
    }

    /// Goes on, with all who have come meanwhile.
    fn go_on(self) -> Outputs {
        let answer = self.group.lead(self.batch).unwrap();
        Outputs::of_answer(["y".to_owned()].into(), answer)
    }
}

/// Runs calls as one batch.
fn together(session: &Session, inputs: &[Tensor]) -> Vec<crate::Result<Outputs>> {
    let held = Held::new(session, &[&inputs[0]]);
    let mut calls: Vec<_> =
        inputs[1..].iter().map(|input| session.submit([input], &Call::new())).collect();
    let first = held.go_on();
    let others = calls.iter_mut().map(ended);
    [Ok(first)].into_iter().chain(others).collect()
}

#[test]
fn calls_that_come_during_another_are_one_batch() {
    let session = perceptron(joining());
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let before = session.batching_stats();
    let inputs: Vec<Tensor> = (0..5).map(|seed| tensor(&numbers(8, seed), &[1, 8])).collect();
    let answers: Vec<_> =
        together(&session, &inputs).into_iter().map(|outputs| y(&outputs.unwrap())).collect();
    let alone = perceptron(Batching::off());
    let expected: Vec<_> = inputs.iter().map(|input| y(&alone.run([input]).unwrap())).collect();
    assert_eq!(answers, expected);
    let stats = session.batching_stats();
    let sizes: Vec<u64> = stats.sizes.iter().zip(&before.sizes).map(|(a, b)| a - b).collect();
    assert_eq!(sizes[..6], [0, 0, 0, 0, 1, 0]);
    assert!(stats.to_string().contains("calls in"), "{stats}");
}

/// There are plans for some sizes at first; others are made of them, and padded.
#[test]
fn batches_of_every_size_give_the_same_bits() {
    let (session, alone) = (perceptron(joining()), perceptron(Batching::off()));
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    for calls in 1..24 {
        let inputs: Vec<Tensor> =
            (0..calls).map(|seed| tensor(&numbers(8, seed * calls), &[1, 8])).collect();
        for (outputs, input) in together(&session, &inputs).into_iter().zip(&inputs) {
            assert_eq!(y(&outputs.unwrap()), y(&alone.run([input]).unwrap()), "{calls} calls");
        }
    }
}

#[test]
fn one_wrong_input_fails_alone() {
    let session = lookup(joining());
    session.warm_up(&[("ids", &[1, 1])]).unwrap();
    let inputs = [3, 7, 999, 9].map(ids);
    let results = together(&session, &inputs);
    let table = numbers(40, 3);
    for (result, id) in results.iter().zip([3usize, 7, 999, 9]) {
        match result {
            Ok(outputs) => assert_eq!(y(outputs), table[4 * id..4 * id + 4]),
            Err(error) => assert_eq!(id, 999, "{error}"),
        }
    }
    assert!(results[2].is_err());
    assert_eq!(session.batching_stats().repeated, 1);
    // The next call finds everything as it was.
    assert_eq!(y(&session.run([&ids(1)]).unwrap()), table[4..8]);
}

#[test]
fn a_full_queue_is_an_error_in_words() {
    let session = perceptron(joining().queue(1));
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let input = tensor(&numbers(8, 1), &[1, 8]);
    let held = Held::new(&session, &[&input]);
    let mut calls = [0, 1].map(|_| session.submit([&input], &Call::new()));
    let error = ended(&mut calls[1]).unwrap_err().to_string();
    assert!(error.contains("1 calls wait already"), "{error}");
    held.go_on();
    assert!(ended(&mut calls[0]).is_ok());
    assert_eq!(session.batching_stats().rejected, 1);
}

#[test]
fn a_call_that_is_given_up_is_counted_and_harms_nobody() {
    let session = perceptron(joining());
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let input = tensor(&numbers(8, 1), &[1, 8]);
    let held = Held::new(&session, &[&input]);
    let [given_up, mut other] = [0, 1].map(|_| session.submit([&input], &Call::new()));
    drop(given_up);
    assert_eq!(y(&held.go_on()), y(&ended(&mut other).unwrap()));
    assert_eq!(session.batching_stats().sizes[1], 1);
    assert_eq!(session.batching_stats().canceled, 1);
}

/// The leader goes away: another of those that wait leads.
#[test]
fn a_leader_that_is_given_up_leaves_its_place_to_the_others() {
    let session = perceptron(joining());
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let inputs: Vec<Tensor> = (0..4).map(|seed| tensor(&numbers(8, seed), &[1, 8])).collect();
    let mut held = Held::new(&session, &[&inputs[0]]);
    let submit = |input: &Tensor| session.submit([input], &Call::new());
    let mut calls: Vec<_> = inputs[1..].iter().map(submit).collect();
    held.batch.fill();
    drop(held);
    let alone = perceptron(Batching::off());
    for (call, input) in calls.iter_mut().zip(&inputs[1..]) {
        assert_eq!(y(&ended(call).unwrap()), y(&alone.run([input]).unwrap()));
    }
    assert_eq!(session.batching_stats().sizes[2], 1);
}

#[test]
fn a_deadline_that_has_passed_is_an_error() {
    let session = perceptron(joining());
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let input = tensor(&numbers(8, 1), &[1, 8]);
    let held = Held::new(&session, &[&input]);
    let mut late = session.submit([&input], &Call::new().deadline(Instant::now()));
    let mut other = session.submit([&input], &Call::new().within(Duration::from_secs(60)));
    held.go_on();
    assert!(ended(&mut other).is_ok());
    let error = ended(&mut late).unwrap_err().to_string();
    assert!(error.contains("deadline"), "{error}");
    assert_eq!(session.batching_stats().late, 1);
}

/// Calls of several rows are joined with calls of as many.
#[test]
fn calls_may_have_several_rows() {
    let (session, alone) = (perceptron(joining()), perceptron(Batching::off()));
    session.warm_up(&[("x", &[3, 8])]).unwrap();
    let inputs: Vec<Tensor> = (0..6).map(|seed| tensor(&numbers(24, seed), &[3, 8])).collect();
    for (outputs, input) in together(&session, &inputs).into_iter().zip(&inputs) {
        assert_eq!(y(&outputs.unwrap()), y(&alone.run([input]).unwrap()));
    }
    assert_eq!(session.batching_stats().sizes[5], 1);
}

fn joinable(session: &Session, shape: &[usize]) -> Joinable {
    session.joinable(&[("x", shape)]).unwrap()
}

#[test]
fn whether_calls_can_be_joined_is_said_with_the_reason() {
    let yes = joinable(&perceptron(Batching::new()), &[1, 8]);
    assert_eq!(yes, Joinable::Yes { axes: vec![("x".into(), Some(0))] });
    assert_eq!(yes.to_string(), "calls can be joined: x along axis 0");

    let mut writer = Writer::new();
    let x = writer.input("x", DType::F32, rows());
    let axes = millstream_core::Axes::new(&[0]).unwrap();
    let sum = writer.node(Apply(Op::Reduce { op: ReduceOp::Sum, axes }), &[x]);
    let no = joinable(&writer.session(sum, Batching::new()), &[1, 8]).to_string();
    assert!(no.contains("node \"node1\"") && no.contains("combines axis 0"), "{no}");

    let mut writer = Writer::new();
    let x = writer.input("x", DType::F32, rows());
    let times = writer.node(TimesRows, &[x]);
    let no = joinable(&writer.session(times, Batching::new()), &[1, 8]).to_string();
    assert!(no.contains("not joined"), "{no}");
    let off = joinable(&perceptron(Batching::off()), &[1, 8]).to_string();
    assert!(off.contains("switched off"), "{off}");
}

/// A file that says that there is one row: calls take one row each, and are joined all the same.
#[test]
fn a_fixed_batch_of_one_is_joined() {
    let build = |batching| {
        let mut writer = Writer::new();
        let x = writer.input("x", DType::F32, vec![Dim::Known(1), Dim::Known(8)]);
        let y = writer.node(Apply(Op::Unary { op: UnaryOp::Exp }), &[x]);
        writer.session(y, batching)
    };
    let (session, alone) = (build(joining()), build(Batching::off()));
    session.warm_up(&[]).unwrap();
    let inputs: Vec<Tensor> = (0..4).map(|seed| tensor(&numbers(8, seed), &[1, 8])).collect();
    for (outputs, input) in together(&session, &inputs).into_iter().zip(&inputs) {
        assert_eq!(y(&outputs.unwrap()), y(&alone.run([input]).unwrap()));
    }
    assert_eq!(session.batching_stats().sizes[3], 1);
    assert!(session.run([&tensor(&numbers(16, 0), &[2, 8])]).is_err());
}

/// A number that is no row must be the same tensor for the calls of a batch; others are computed by themselves.
#[test]
fn calls_with_other_shared_inputs_are_kept_apart() {
    let build = |batching| {
        let mut writer = Writer::new();
        let x = writer.input("x", DType::F32, rows());
        let rate = writer.input("rate", DType::F32, vec![]);
        let y = writer.node(binary(BinaryOp::Mul), &[x, rate]);
        writer.session(y, batching)
    };
    let session = build(joining());
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let rates = [2.0, 3.0].map(|rate| tensor(&[rate], &[]));
    let x: Vec<Tensor> = (0..6).map(|seed| tensor(&numbers(8, seed), &[1, 8])).collect();
    let held = Held::new(&session, &[&x[0], &rates[0]]);
    let mut calls: Vec<_> = x
        .iter()
        .enumerate()
        .map(|(at, x)| session.submit([x, &rates[at % 2]], &Call::new()))
        .collect();
    held.go_on();
    assert_eq!(session.batching_stats().sizes[6], 1);
    for (at, call) in calls.iter_mut().enumerate() {
        let expected: Vec<f32> =
            numbers(8, at).iter().map(|value| value * [2.0, 3.0][at % 2]).collect();
        assert_eq!(y(&ended(call).unwrap()), expected);
    }
}

/// Numbers on the host are joined too, with each other and with tensors, and shared inputs by what they are.
#[test]
fn numbers_on_the_host_are_joined() {
    let mut writer = Writer::new();
    let x = writer.input("x", DType::F32, rows());
    let rate = writer.input("rate", DType::F32, vec![]);
    let product = writer.node(binary(BinaryOp::Mul), &[x, rate]);
    let session = writer.session(product, joining());
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let x = |seed: usize| Array::from_slice(&numbers(8, seed), &[1, 8]).unwrap();
    let two = || Array::scalar(2f32);
    for tensors in [0, 2] {
        let before = session.batching_stats();
        let held = Held::with(&session, [x(0), two()]);
        let mut calls: Vec<_> = (1..6)
            .map(|seed| {
                let given: HostValue = match seed <= tensors {
                    true => x(seed).to_tensor(&device()).unwrap().into(),
                    false => x(seed).into(),
                };
                session.submit([("x", given), ("rate", two().into())], &Call::new())
            })
            .collect();
        let first = held.go_on();
        let others = calls.iter_mut().map(|call| y(&ended(call).unwrap()));
        for (seed, found) in [y(&first)].into_iter().chain(others).enumerate() {
            let expected: Vec<f32> = numbers(8, seed).iter().map(|value| value * 2.0).collect();
            assert_eq!(found, expected, "{seed} of a batch with {tensors} tensors");
        }
        assert_eq!(session.batching_stats().sizes[5] - before.sizes[5], 1);
    }
}

/// A user may know what cannot be proved.
#[test]
fn what_is_assumed_is_not_proved() {
    let mut writer = Writer::new();
    let x = writer.input("x", DType::F32, rows());
    let times = writer.node(TimesRows, &[x]);
    let session = writer.session(times, joining().assume_batchable(0));
    assert_eq!(joinable(&session, &[1, 8]), Joinable::Yes { axes: vec![("x".into(), Some(0))] });
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let inputs: Vec<Tensor> = (0..3).map(|_| tensor(&[1.0; 8], &[1, 8])).collect();
    let answers =
        together(&session, &inputs[..2]).into_iter().map(|outputs| y(&outputs.unwrap())[0]);
    // Wrong, as was asked for: the two that were joined count two rows.
    assert_eq!(answers.collect::<Vec<f32>>(), [2.0, 2.0]);
}

/// Every row carries a number of its own, and must come back to its caller. `MILLSTREAM_IDENTITY_CALLS` asks for more calls.
#[test]
fn every_row_comes_back_to_its_caller() {
    let asked =
        std::env::var("MILLSTREAM_IDENTITY_CALLS").ok().and_then(|calls| calls.parse().ok());
    let (threads, calls) = (64, asked.unwrap_or(6_400usize));
    let session = perceptron_identity();
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let session = &session;
            scope.spawn(move || {
                for call in 0..calls / threads {
                    let id = (thread * 15_013 + call) as f32;
                    let outputs = session.run([&tensor(&[id; 8], &[1, 8])]).unwrap();
                    let expected = [id + 0.5; 8];
                    assert_eq!(outputs.read::<f32>("y").unwrap()[..], expected);
                }
            });
        }
    });
    let stats = session.batching_stats();
    assert!(stats.calls() > stats.batches(), "nothing was joined: {stats}");
}

/// `y = x + 1/2`, joined whenever calls meet.
fn perceptron_identity() -> Session {
    let mut writer = Writer::new();
    let x = writer.input("x", DType::F32, rows());
    let half = writer.constant(Array::scalar(0.5f32));
    let y = writer.node(binary(BinaryOp::Add), &[x, half]);
    writer.session(y, joining())
}

/// Nobody asked for a plan: calls run by themselves until it is there, and are joined from then on.
#[test]
fn plans_are_compiled_behind_the_calls() {
    let session = perceptron(joining());
    let input = tensor(&numbers(8, 1), &[1, 8]);
    let expected = y(&perceptron(Batching::off()).run([&input]).unwrap());
    let begun = Instant::now();
    while session.batching_stats().in_flight.is_none() {
        // Two calls that meet: the outputs of the first are still there.
        let first = session.run([&input]).unwrap();
        let second = session.run([&input]).unwrap();
        assert_eq!((y(&first), y(&second)), (expected.clone(), expected.clone()));
        assert!(begun.elapsed() < Duration::from_secs(60), "it is never prepared");
    }
    assert_eq!(session.stats().compiled, 1);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(12))]

    /// Any interleaving gives the bits of calls one after another.
    #[test]
    fn any_interleaving_gives_the_bits_of_calls_one_after_another(
        seeds in proptest::collection::vec(0usize..1000, 1..40),
        threads in 1usize..6,
        in_flight in 1usize..4,
        most in 2usize..9,
    ) {
        let session = perceptron(Batching::new().always().in_flight(in_flight).most(most));
        session.warm_up(&[("x", &[1, 8])]).unwrap();
        let alone = perceptron(Batching::off());
        let inputs: Vec<Tensor> =
            seeds.iter().map(|&seed| tensor(&numbers(8, seed), &[1, 8])).collect();
        let expected: Vec<_> = inputs.iter().map(|input| y(&alone.run([input]).unwrap())).collect();
        let next = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| loop {
                    let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(input) = inputs.get(at) else { return };
                    assert_eq!(y(&session.run([input]).unwrap()), expected[at]);
                });
            }
        });
    }
}
