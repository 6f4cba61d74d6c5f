//! What is computed where shapes follow from contents: stages, branches, and operators of the host.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream_core::{BinaryOp, DType, Device, Epilogue, Op, Result, UnaryOp};
use millstream_cpu as _;
use millstream_graph::{
    Array, Body, Constant, Expanded, Expander, HostCall, HostOperator, HostStep, HostValue, Limits,
    ModelValue, Operator, Passes, Program, Session, Sizes, Stop, Strings, Value, ValueId,
    ValueType, View,
};
use millstream_nn::Tensor;

type Expand = dyn Fn(&mut Expander<'_>, &[Option<Value>]) -> Expanded<Vec<Value>> + Send + Sync;

struct Function(&'static str, Box<Expand>);

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl Operator for Function {
    fn kind(&self) -> &str {
        self.0
    }

    fn expand(&self, at: &mut Expander<'_>, inputs: &[Option<Value>]) -> Expanded<Vec<Value>> {
        (self.1)(at, inputs)
    }
}

fn function(
    name: &'static str,
    expand: impl Fn(&mut Expander<'_>, &[Option<Value>]) -> Expanded<Vec<Value>> + Send + Sync + 'static,
) -> Box<dyn Operator> {
    Box::new(Function(name, Box::new(expand)))
}

fn edge(inputs: &[Option<Value>], at: usize) -> Result<millstream_graph::Edge> {
    inputs[at].as_ref().expect("an input").tensor()
}

/// A body that is being written, with a value per name.
struct Writer(Body);

impl Writer {
    fn new() -> Self {
        Self(Body::new())
    }

    fn input(&mut self, name: &str) -> ValueId {
        let value = self.0.add_value(name);
        self.0.add_input(value, ValueType::Unknown, None);
        value
    }

    fn constant(&mut self, array: Array) -> ValueId {
        let value = self.0.add_value("constant");
        self.0.set_constant(value, Constant::new(array));
        value
    }

    fn node(&mut self, operator: Box<dyn Operator>, inputs: &[ValueId]) -> ValueId {
        let output = self.0.add_value("made");
        let inputs = inputs.iter().map(|&input| Some(input)).collect();
        self.0.add_node("", operator, inputs, vec![Some(output)]);
        output
    }

    fn output(mut self, value: ValueId) -> Body {
        self.0.add_output("out", value, ValueType::Unknown);
        self.0
    }
}

fn unary(op: UnaryOp) -> Box<dyn Operator> {
    function("unary", move |at, inputs| {
        let input = edge(inputs, 0)?;
        Ok(vec![at.apply(Op::Unary { op }, &[input])?.into()])
    })
}

fn add() -> Box<dyn Operator> {
    function("add", |at, inputs| {
        let (a, b) = (edge(inputs, 0)?, edge(inputs, 1)?);
        Ok(vec![at.apply(Op::Binary { op: BinaryOp::Add }, &[a, b])?.into()])
    })
}

/// The elements that are not zero, of which only a call knows how many there are.
fn compact() -> Box<dyn Operator> {
    function("compact", |at, inputs| {
        let input = edge(inputs, 0)?;
        let made = at.kept(|at| {
            let condition = at.apply(Op::Copy { dtype: DType::Bool, saturate: true }, &[input])?;
            at.apply_all(Op::Compress { axis: None }, &[input, condition])
        })?;
        let count = at.scalar(made[1])?.as_i64() as usize;
        let view = View::Slice { axis: 0, start: 0, count, step: 1 };
        Ok(vec![at.view(view, made[0])?.into()])
    })
}

fn session(body: Body) -> Session {
    Session::builder(&Device::cpu().unwrap()).build(body).unwrap()
}

fn tensor(values: &[f32]) -> Tensor {
    Tensor::from_slice(values, &[values.len()], &Device::cpu().unwrap()).unwrap()
}

fn run(session: &Session, inputs: &[&Tensor]) -> Vec<f32> {
    let inputs: Vec<ModelValue> = inputs.iter().map(|&tensor| tensor.into()).collect();
    match &session.run(inputs).unwrap()[..] {
        [ModelValue::Tensor(tensor)] => tensor.to_vec().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_size_that_only_the_data_knows_cuts_the_work_in_two() {
    let mut writer = Writer::new();
    let input = writer.input("x");
    let found = writer.node(compact(), &[input]);
    let doubled = writer.node(add(), &[found, found]);
    let session = session(writer.output(doubled));
    assert_eq!(run(&session, &[&tensor(&[1.0, 0.0, 2.0, 0.0])]), [2.0, 4.0]);
    assert_eq!(run(&session, &[&tensor(&[0.0, 0.0, 0.0, 3.0])]), [6.0]);
    assert_eq!(run(&session, &[&tensor(&[0.0; 4])]), [0.0f32; 0]);
    assert_eq!(run(&session, &[&tensor(&[5.0, 6.0])]), [10.0, 12.0]);
}

#[test]
fn plans_are_bounded_where_sizes_follow_from_sizes_that_follow_from_data() {
    let mut writer = Writer::new();
    let input = writer.input("x");
    let found = writer.node(compact(), &[input]);
    let one = writer.constant(Array::scalar(-1.0f32));
    let less = writer.node(add(), &[found, one]);
    let again = writer.node(compact(), &[less]);
    let doubled = writer.node(add(), &[again, again]);
    let body = writer.output(doubled);
    let session = Session::builder(&Device::cpu().unwrap()).plans(3).build(body).unwrap();
    let call = |values: &[f32]| {
        let kept = values.iter().filter(|&&value| value != 0.0 && value != 1.0);
        let expected: Vec<f32> = kept.map(|value| (value - 1.0) * 2.0).collect();
        assert_eq!(run(&session, &[&tensor(values)]), expected);
    };
    for zeros in 0..4 {
        for ones in 0..4 {
            let values: Vec<f32> = (0..12)
                .map(|at| {
                    [0.0, 1.0, 2.5][usize::from(at >= zeros) + usize::from(at >= zeros + ones)]
                })
                .collect();
            call(&values);
            // Three chains of three stages at most, of which the first is common to all.
            assert!(session.stats().stages <= 7, "{}", session.stats());
        }
    }
    // What was used last is still there, with all that leads to it.
    let compiled = session.stats().compiled;
    let last = [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5];
    call(&last);
    assert_eq!(session.stats().compiled, compiled);
    // Other shapes of the inputs count as well.
    for length in 1..6 {
        call(&vec![3.0; length]);
        assert!(session.stats().stages <= 9, "{}", session.stats());
    }
}

/// A chain of so many steps, each of which finds its shape in contents.
fn long_chain(steps: usize) -> Body {
    let mut writer = Writer::new();
    let mut value = writer.input("x");
    for _ in 0..steps {
        value = writer.node(compact(), &[value]);
    }
    writer.output(value)
}

#[test]
fn a_long_chain_of_stages_is_counted_and_freed_on_a_small_stack() {
    let thread = std::thread::Builder::new().stack_size(256 << 10);
    let small = thread.spawn(|| {
        let session = session(long_chain(900));
        assert_eq!(run(&session, &[&tensor(&[1.0, 0.0])]), [1.0]);
        assert_eq!(session.stats().stages, 901);
    });
    small.unwrap().join().unwrap();
}

/// What a plan folds out of a weight and a number of an operator is the same for all plans.
#[test]
fn plans_of_several_shapes_share_what_is_folded_of_weights() {
    let mut writer = Writer::new();
    let x = writer.input("x");
    let values: Vec<f32> = (0..64 * 64).map(|at| at as f32 * 1e-3 - 1.0).collect();
    let weights = writer.constant(Array::from_slice(&values, &[64, 64]).unwrap());
    let product = function("product", |at, inputs| {
        let (x, weights) = (edge(inputs, 0)?, edge(inputs, 1)?);
        let made = at.apply(Op::MatMul { epilogue: Epilogue::default() }, &[x, weights])?;
        let number = at.number(0.5f32, DType::F32)?;
        Ok(vec![at.apply(Op::Binary { op: BinaryOp::Mul }, &[made, number])?.into()])
    });
    let y = writer.node(product, &[x, weights]);
    let session = session(writer.output(y));
    let device = Device::cpu().unwrap();
    let mut bytes = Vec::new();
    for rows in 1..5 {
        let x = Tensor::ones(&[rows, 64], DType::F32, &device).unwrap();
        let inputs = [x];
        session.run(&inputs[..]).unwrap().wait().unwrap();
        bytes.push(session.stats().weight_bytes);
    }
    assert!(bytes[3] < 2 * values.len() * 4, "{bytes:?}");
}

#[test]
fn a_chain_of_more_stages_than_the_limit_is_an_error() {
    let limits = Limits { stages: 10, ..Limits::default() };
    let device = Device::cpu().unwrap();
    let build = |steps| Session::builder(&device).limits(limits.clone()).build(long_chain(steps));
    assert_eq!(run(&build(10).unwrap(), &[&tensor(&[1.0, 0.0])]), [1.0]);
    let refused = build(11).unwrap();
    let error = refused.run([&tensor(&[1.0, 0.0])]).unwrap_err();
    assert!(error.to_string().contains("Limits::stages"), "{error}");
}

#[test]
fn work_that_does_not_need_the_contents_is_not_held_up() {
    let mut writer = Writer::new();
    let (x, y) = (writer.input("x"), writer.input("y"));
    let found = writer.node(compact(), &[x]);
    // Both need contents, neither needs the other's: they are read together.
    let other = writer.node(compact(), &[y]);
    let sum = writer.node(add(), &[found, other]);
    let session = session(writer.output(sum));
    assert_eq!(
        run(&session, &[&tensor(&[1.0, 0.0, 2.0]), &tensor(&[0.0, 7.0, 8.0, 0.0])]),
        [8.0, 10.0]
    );
}

/// Strides of axes of size 1 may be any: elements that are where they are wanted are not copied onto themselves.
#[test]
fn an_output_may_be_a_view_with_axes_of_size_1() {
    let mut writer = Writer::new();
    let input = writer.input("x");
    let moved = function("moved", |at, inputs| {
        let negated = at.apply(Op::Unary { op: UnaryOp::Neg }, &[edge(inputs, 0)?])?;
        let count = at.shape(negated)[0];
        let reshaped = at.view(View::Reshape(Sizes::from_slice(&[1, count, 1])), negated)?;
        let order = Sizes::from_slice(&[1, 0, 2]);
        Ok(vec![at.view(View::Permute(order), reshaped)?.into()])
    });
    let moved = writer.node(moved, &[input]);
    let session = session(writer.output(moved));
    assert_eq!(run(&session, &[&tensor(&[1.0, 2.0, 3.0])]), [-1.0, -2.0, -3.0]);
}

/// A branch that reads a value of the surrounding body.
fn branch() -> Box<dyn Operator> {
    let body = |op: UnaryOp| {
        let mut writer = Writer::new();
        let input = writer.input("x");
        let made = writer.node(unary(op), &[input]);
        // A branch may itself be cut.
        let found = writer.node(compact(), &[made]);
        Arc::new(writer.output(found))
    };
    let (yes, no) = (body(UnaryOp::Abs), body(UnaryOp::Neg));
    function("if", move |at, inputs| {
        let condition = at.scalar(edge(inputs, 0)?)?.as_bool();
        let chosen = if condition { &yes } else { &no };
        Err(Stop::Inline(Arc::clone(chosen), vec![inputs[1].clone().expect("an input")]))
    })
}

#[test]
fn a_branch_is_chosen_by_each_call() {
    let mut writer = Writer::new();
    let (condition, x) = (writer.input("condition"), writer.input("x"));
    let chosen = writer.node(branch(), &[condition, x]);
    let sum = writer.node(add(), &[chosen, chosen]);
    let session = session(writer.output(sum));
    let device = Device::cpu().unwrap();
    let truth = |value: bool| Tensor::from_slice(&[value], &[], &device).unwrap();
    let x = tensor(&[-1.0, 0.0, 2.0]);
    assert_eq!(run(&session, &[&truth(true), &x]), [2.0, 4.0]);
    assert_eq!(run(&session, &[&truth(false), &x]), [2.0, -4.0]);
}

#[derive(Debug)]
struct Spell(AtomicUsize);

impl HostOperator for Spell {
    fn run(&self, _call: &HostCall<'_>, inputs: Vec<Option<HostValue>>) -> Result<HostStep> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let strings = inputs[0].as_ref().expect("an input").strings()?;
        let lengths: Vec<f32> = strings.values().iter().map(|text| text.len() as f32).collect();
        Ok(HostStep::Done(vec![Array::from_slice(&lengths, strings.shape())?.into()]))
    }
}

#[test]
fn operators_of_the_host_run_between_stages() {
    let spell = Arc::new(Spell(AtomicUsize::new(0)));
    let host: Arc<dyn HostOperator> = spell.clone();
    let mut writer = Writer::new();
    let texts = writer.input("texts");
    let lengths =
        writer.node(function("spell", move |_, _| Err(Stop::Host(Arc::clone(&host)))), &[texts]);
    let sum = writer.node(add(), &[lengths, lengths]);
    let session = session(writer.output(sum));
    for words in [vec!["a", "bcd"], vec!["efghi", ""]] {
        let expected: Vec<f32> = words.iter().map(|word| 2.0 * word.len() as f32).collect();
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let strings = Strings::new(&[2], words).unwrap();
        let outputs = session.run(vec![ModelValue::from(strings)]).unwrap();
        let ModelValue::Tensor(tensor) = &outputs[0] else { panic!("a tensor") };
        assert_eq!(tensor.to_vec::<f32>().unwrap(), expected);
    }
    assert_eq!(spell.0.load(Ordering::Relaxed), 2);
}

/// Adds its input to itself until it is above a limit: a program is run again and again, and what it made is read.
#[derive(Debug)]
struct Doubling(Arc<Program>);

fn doubled(program: Arc<Program>, value: HostValue) -> HostStep {
    let again = Arc::clone(&program);
    HostStep::Run {
        program,
        inputs: vec![value],
        then: Box::new(move |call, values| {
            let tensor = values[0].tensor(call)?;
            let then = Box::new(move |_: &HostCall<'_>, arrays: Vec<Array>| {
                if arrays[0].to_f64s()?.iter().all(|&value| value > 100.0) {
                    return Ok(HostStep::Done(values));
                }
                Ok(doubled(again, values.into_iter().next().expect("a value")))
            });
            Ok(HostStep::Read { tensors: vec![tensor], then })
        }),
    }
}

impl HostOperator for Doubling {
    fn reads(&self, _: usize) -> bool {
        false
    }

    fn run(&self, _call: &HostCall<'_>, mut inputs: Vec<Option<HostValue>>) -> Result<HostStep> {
        let value = inputs.remove(0).expect("an input");
        Ok(doubled(Arc::clone(&self.0), value))
    }
}

#[test]
fn operators_of_the_host_run_programs_and_read_what_they_made() {
    let mut inner = Writer::new();
    let x = inner.input("x");
    // The program itself is cut in two.
    let found = inner.node(compact(), &[x]);
    let sum = inner.node(add(), &[found, found]);
    let program = Arc::new(Program::new(inner.output(sum)));
    let host: Arc<dyn HostOperator> = Arc::new(Doubling(program));
    let mut writer = Writer::new();
    let x = writer.input("x");
    let doubled =
        writer.node(function("doubling", move |_, _| Err(Stop::Host(Arc::clone(&host)))), &[x]);
    let result = writer.node(unary(UnaryOp::Neg), &[doubled]);
    let session = session(writer.output(result));
    assert_eq!(run(&session, &[&tensor(&[3.0, 0.0, 40.0])]), [-192.0, -2560.0]);
    assert_eq!(run(&session, &[&tensor(&[60.0])]), [-120.0]);
}

#[test]
fn outputs_may_be_inputs_and_constants() {
    let mut writer = Writer::new();
    let x = writer.input("x");
    let constant = writer.constant(Array::from_slice(&[1f32, 2.0], &[2]).unwrap());
    let folded = writer.node(add(), &[constant, constant]);
    writer.0.add_output("x", x, ValueType::Unknown);
    writer.0.add_output("constant", constant, ValueType::Unknown);
    let session = session(writer.output(folded));
    let outputs = session.run(vec![ModelValue::from(tensor(&[3.0]))]).unwrap();
    let values: Vec<Vec<f32>> = outputs
        .iter()
        .map(|output| match output {
            ModelValue::Tensor(tensor) => tensor.to_vec().unwrap(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(values, [vec![3.0], vec![1.0, 2.0], vec![2.0, 4.0]]);
}

/// A product with bias and activation, with all passes and with none.
#[test]
fn passes_keep_the_answers() {
    let weights: Vec<f32> = (0..12).map(|value| value as f32 * 0.25 - 1.0).collect();
    let body = || {
        let mut writer = Writer::new();
        let x = writer.input("x");
        let weight = writer.constant(Array::from_slice(&weights, &[4, 3]).unwrap());
        let bias = writer.constant(Array::from_slice(&[0.5f32, -3.0, 0.25], &[3]).unwrap());
        let product = function("matmul", |at, inputs| {
            let (a, b) = (edge(inputs, 0)?, edge(inputs, 1)?);
            let a = at.view(View::Reshape(Sizes::from_slice(&[2, 4])), a)?;
            Ok(vec![at.apply(Op::MatMul { epilogue: Epilogue::default() }, &[a, b])?.into()])
        });
        let product = writer.node(product, &[x, weight]);
        let sum = writer.node(add(), &[product, bias]);
        let result = writer.node(unary(UnaryOp::Relu), &[sum]);
        writer.output(result)
    };
    let device = Device::cpu().unwrap();
    let x = tensor(&[1.0, -2.0, 3.0, 0.5, 0.0, 1.0, -1.0, 2.0]);
    let plain = Session::builder(&device).passes(Passes::none()).build(body()).unwrap();
    let expected = run(&plain, &[&x]);
    assert_eq!(run(&session(body()), &[&x]), expected);
    assert!(expected.contains(&0.0) && expected.iter().any(|&value| value > 0.0));
}

#[test]
fn a_tensor_beyond_the_limit_is_refused_by_name() {
    let mut writer = Writer::new();
    let x = writer.input("x");
    let wide = function("expand", |at, inputs| {
        let shape = Sizes::from_slice(&[1 << 20, 2]);
        Ok(vec![at.view(View::Broadcast(shape), edge(inputs, 0)?)?.into()])
    });
    let wide = writer.node(wide, &[x]);
    let limits = Limits { tensor_bytes: 1 << 20, ..Limits::default() };
    let device = Device::cpu().unwrap();
    let session = Session::builder(&device).limits(limits).build(writer.output(wide)).unwrap();
    let error = session.run(vec![ModelValue::from(tensor(&[1.0, 2.0]))]).unwrap_err().to_string();
    assert!(error.contains("expand") && error.contains("8388608 bytes"), "{error}");
}
