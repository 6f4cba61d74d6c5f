use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use millstream_core::{BinaryOp, Op};

use super::*;
use crate::expand::{Expanded, Expander, Value};
use crate::model::{Dim, Operator, ValueType};
use crate::{Array, Constant};

#[derive(Debug)]
struct Add;

impl Operator for Add {
    fn kind(&self) -> &str {
        "Add"
    }

    fn expand(&self, at: &mut Expander<'_>, inputs: &[Option<Value>]) -> Expanded<Vec<Value>> {
        let edge = |at: usize| inputs[at].as_ref().expect("an input").tensor();
        let (a, b) = (edge(0)?, edge(1)?);
        Ok(vec![at.apply(Op::Binary { op: BinaryOp::Add }, &[a, b])?.into()])
    }
}

/// `sum = x + y`, where `y` is 10 unless it is given.
fn session() -> Session {
    let mut body = Body::new();
    let [x, y, sum] = ["x", "y", "sum"].map(|name| body.add_value(name));
    let row = ValueType::Tensor(DType::F32, Some(vec![Dim::Named("n".into()), Dim::Known(2)]));
    let ten = Constant::new(Array::scalar(10f32));
    body.add_input(x, row.clone(), None);
    body.add_input(y, ValueType::Tensor(DType::F32, None), Some(ten));
    body.add_node("add", Box::new(Add), vec![Some(x), Some(y)], vec![Some(sum)]);
    body.add_output("sum", sum, row);
    Session::builder(&Device::cpu().unwrap()).build(body).unwrap()
}

fn tensor(values: &[f32], shape: &[usize]) -> Tensor {
    Tensor::from_slice(values, shape, &Device::cpu().unwrap()).unwrap()
}

#[test]
fn inputs_come_by_name_or_in_order_and_defaults_may_be_left_out() {
    let (session, x) = (session(), tensor(&[1.0, 2.0], &[1, 2]));
    let y = tensor(&[5.0], &[1]);
    let sum = |inputs: Inputs| {
        session.run(inputs).unwrap().tensor("sum").unwrap().to_vec::<f32>().unwrap()
    };
    assert_eq!(sum([("x", &x)].into()), [11.0, 12.0]);
    assert_eq!(sum([("y", &y), ("x", &x)].into()), [6.0, 7.0]);
    assert_eq!(sum([&x, &y].into()), [6.0, 7.0]);
    assert_eq!(sum([&x].into()), [11.0, 12.0]);
    let on_host = Array::from_slice(&[1f32, 2.0], &[1, 2]).unwrap();
    assert_eq!(sum([on_host.clone()].into()), [11.0, 12.0]);
    assert_eq!(sum([("x", on_host)].into()), [11.0, 12.0]);
    let stats = session.stats();
    assert_eq!((stats.calls, stats.compiled, stats.hits()), (6, 2, 4));
    assert!(stats.to_string().starts_with("6 calls"), "{stats}");
}

#[test]
fn what_does_not_fit_is_refused_in_words() {
    let (session, x) = (session(), tensor(&[1.0, 2.0], &[1, 2]));
    let error = |inputs: Inputs| session.run(inputs).unwrap_err().to_string();
    let takes = "the model takes x (f32[n, 2]), y (f32[…])";
    assert_eq!(error([("z", &x)].into()), format!("run: there is no input \"z\": {takes}"));
    let whole = Array::from_slice(&[1i64, 2], &[1, 2]).unwrap();
    let found = "run: input \"x\" is i64[1, 2], the model takes f32[n, 2]";
    assert_eq!(error([whole].into()), found);
    let constant = HostValue::Constant(Constant::new(Array::scalar(1f32)));
    assert!(error([("x", constant)].into()).contains("a value within a model"));
    assert_eq!(
        error([("y", &x)].into()),
        format!("run: input \"x\" (f32[n, 2]) is not given: {takes}")
    );
    assert_eq!(error([("x", &x), ("x", &x)].into()), "run: input \"x\" is given twice");
    assert_eq!(error([&x, &x, &x].into()), format!("run: 3 inputs are given, {takes}"));
    let wide = tensor(&[0.0; 3], &[1, 3]);
    assert_eq!(error([&wide].into()), "run: input \"x\" is f32[1, 3], the model takes f32[n, 2]");
    let whole = x.to_dtype(DType::I64).unwrap();
    assert_eq!(error([&whole].into()), "run: input \"x\" is i64[1, 2], the model takes f32[n, 2]");
    let strings = crate::Strings::new(&[1, 2], vec!["a".into(), "b".into()]).unwrap();
    let strings: Vec<ModelValue> = vec![strings.into()];
    assert_eq!(error(strings.into()), "run: input \"x\" is strings, the model takes f32[n, 2]");
}

#[test]
fn an_input_of_another_device_is_refused() {
    let other = Device::builder("cpu").open().unwrap();
    let x = Tensor::zeros(&[1, 2], DType::F32, &other).unwrap();
    let error = session().run([&x]).unwrap_err().to_string();
    assert!(error.contains("but the session runs on"), "{error}");
}

#[test]
fn warming_up_compiles_and_says_which_shape_is_missing() {
    let session = session();
    let error = session.warm_up(&[]).unwrap_err().to_string();
    assert_eq!(error, "warm_up: the shape of input \"x\", which is f32[n, 2], is missing");
    assert!(session.warm_up(&[("q", &[1])]).is_err());
    session.warm_up(&[("x", &[3, 2])]).unwrap();
    assert_eq!(session.stats().compiled, 1);
    session.run([&tensor(&[0.0; 6], &[3, 2])]).unwrap();
    assert_eq!(session.stats().compiled, 1);
}

#[test]
fn a_profile_names_the_nodes() {
    let times = session().profile([&tensor(&[1.0, 2.0], &[1, 2])]).unwrap();
    assert!(times.iter().any(|row| row.node == "add" && row.commands >= 1), "{times:?}");
}

/// Wakes the thread that waits.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn calls_can_be_awaited() {
    let (session, x) = (session(), tensor(&[1.0, 2.0], &[1, 2]));
    let sum = block_on(async {
        let outputs = session.run_async([&x]).await?;
        outputs.tensor("sum")?.to_vec_async::<f32>().await
    });
    assert_eq!(sum.unwrap(), [11.0, 12.0]);
}

#[test]
fn a_file_of_an_unknown_kind_is_refused_in_words() {
    let device = Device::cpu().unwrap();
    let missing = Session::open("/no/such/model.onnx", &device).unwrap_err();
    assert!(missing.to_string().contains("/no/such/model.onnx"), "{missing}");
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let error = Session::open(manifest, &device).unwrap_err().to_string();
    assert!(error.contains("its extension is none of those that are read"), "{error}");
}

/// Many threads and many shapes on one session: every caller gets its own answer.
#[test]
fn threads_with_different_shapes_share_a_session() {
    let session = session();
    std::thread::scope(|scope| {
        for thread in 0..8usize {
            let session = &session;
            scope.spawn(move || {
                for call in 0..50 {
                    let rows = 1 + (thread + call) % 5;
                    let values: Vec<f32> =
                        (0..2 * rows).map(|at| (thread * 1000 + call * 10 + at) as f32).collect();
                    let outputs = session.run([&tensor(&values, &[rows, 2])]).unwrap();
                    let found = outputs.tensor("sum").unwrap().to_vec::<f32>().unwrap();
                    let expected: Vec<f32> = values.iter().map(|value| value + 10.0).collect();
                    assert_eq!(found, expected);
                }
            });
        }
    });
    let stats = session.stats();
    assert_eq!((stats.calls, stats.compiled), (400, 5));
}

#[test]
fn outputs_are_written_to_memory_that_the_caller_keeps() {
    let (session, x) = (session(), tensor(&[1.0, 2.0], &[1, 2]));
    let sum = tensor(&[0.0, 0.0], &[1, 2]);
    let seen = sum.clone();
    for round in 0..3 {
        let y = tensor(&[round as f32], &[1]);
        let outputs = session.run_into([("x", &x), ("y", &y)], &[("sum", &sum)]).unwrap();
        let wanted = [1.0 + round as f32, 2.0 + round as f32];
        assert_eq!(seen.to_vec::<f32>().unwrap(), wanted);
        assert_eq!(outputs.tensor("sum").unwrap().to_vec::<f32>().unwrap(), wanted);
    }
    // A part of a tensor, and an input that is an output too.
    let wide = tensor(&[7.0; 6], &[3, 2]);
    let middle = wide.narrow(0, 1, 1).unwrap();
    session.run_into([("x", &x)], &[("sum", &middle)]).unwrap();
    assert_eq!(wide.to_vec::<f32>().unwrap(), [7.0, 7.0, 11.0, 12.0, 7.0, 7.0]);
    session.run_into([("x", &x)], &[("sum", &x)]).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [11.0, 12.0]);
}

/// A model that only passes its inputs on, in the other order, and adds them up.
fn swap() -> Session {
    let mut body = Body::new();
    let [a, b, sum] = ["a", "b", "sum"].map(|name| body.add_value(name));
    let square = ValueType::Tensor(DType::F32, None);
    body.add_input(a, square.clone(), None);
    body.add_input(b, square.clone(), None);
    body.add_node("add", Box::new(Add), vec![Some(a), Some(b)], vec![Some(sum)]);
    for (name, value) in [("first", b), ("second", a), ("sum", sum)] {
        body.add_output(name, value, square.clone());
    }
    Session::builder(&Device::cpu().unwrap()).build(body).unwrap()
}

/// Memory for outputs may be that of inputs, which the model passes on.
#[test]
fn outputs_that_are_inputs_are_written_over_inputs() {
    let session = swap();
    let read = |tensor: &Tensor| tensor.to_vec::<f32>().unwrap();
    let new = || (tensor(&[1.0, 2.0, 3.0, 4.0], &[2, 2]), tensor(&[5.0; 4], &[2, 2]));
    let (a, b) = new();
    session.run_into([("a", &a), ("b", &b)], &[("first", &a), ("second", &b)]).unwrap();
    assert_eq!((read(&a), read(&b)), (vec![5.0; 4], vec![1.0, 2.0, 3.0, 4.0]));
    // The same memory, read in another order.
    let (a, b) = new();
    let transposed = a.transpose(0, 1).unwrap();
    session.run_into([("a", &transposed), ("b", &b)], &[("second", &a)]).unwrap();
    assert_eq!(read(&a), [1.0, 3.0, 2.0, 4.0]);
    // Another part of the same memory.
    let (wide, b) = (tensor(&[1.0, 2.0, 3.0], &[3]), tensor(&[5.0; 2], &[2]));
    let [left, right] = [0, 1].map(|start| wide.narrow(0, start, 2).unwrap());
    session.run_into([("a", &left), ("b", &b)], &[("second", &right)]).unwrap();
    assert_eq!(read(&wide), [1.0, 1.0, 2.0]);
    // What is computed goes where something lies that is passed on.
    let (a, b) = new();
    let outputs = session.run_into([("a", &a), ("b", &b)], &[("sum", &a)]).unwrap();
    assert_eq!(read(outputs.tensor("second").unwrap()), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(read(&a), [6.0, 7.0, 8.0, 9.0]);
}

#[test]
fn memory_for_outputs_that_does_not_fit_is_refused_in_words() {
    let (session, x) = (session(), tensor(&[1.0, 2.0], &[1, 2]));
    let sum = tensor(&[0.0, 0.0], &[1, 2]);
    let error = |outputs: &[(&str, &Tensor)]| {
        session.run_into([("x", &x)], outputs).unwrap_err().to_string()
    };
    let unknown = error(&[("total", &sum)]);
    assert_eq!(unknown, "run_into: there is no output \"total\": there are [\"sum\"]");
    assert!(error(&[("sum", &sum), ("sum", &sum)]).contains("is given twice"));
    let long = tensor(&[0.0; 4], &[2, 2]);
    let misfit = error(&[("sum", &long)]);
    assert_eq!(misfit, "run_into: output \"sum\" is f32[1, 2], its tensor is f32[2, 2]");
    let columns = tensor(&[0.0; 4], &[2, 2]).narrow(1, 0, 1).unwrap();
    assert!(error(&[("sum", &columns)]).contains("must be contiguous and not settled"));
    let settled = sum.copy().unwrap().settle().unwrap();
    assert!(error(&[("sum", &settled)]).contains("must be contiguous and not settled"));
}
