//! Calls with different numbers of rows in one batch, where each row is computed by itself.

use super::*;
use crate::HostValue;

/// The group that calls of such a first input enter, and as how many rows.
fn entered(
    session: &Session,
    inputs: impl Into<crate::Inputs>,
) -> (Arc<super::super::Group>, usize) {
    let values: Vec<HostValue> =
        inputs.into().arranged(session.inputs(), &session.device()).unwrap();
    session.0.joined.as_ref().unwrap().entered(&values).unwrap()
}

fn input(rows: usize, seed: usize) -> Tensor {
    tensor(&numbers(8 * rows, seed), &[rows, 8])
}

/// Warmed up for calls of so many rows.
fn warm(session: &Session, rows: &[usize]) {
    rows.iter().for_each(|&rows| session.warm_up(&[("x", &[rows, 8])]).unwrap());
}

/// All fit in a plan, or they are cut; there are rows for nobody, or none.
#[test]
fn calls_of_any_rows_are_one_batch_with_the_bits_of_each_alone() {
    let (session, alone) = (perceptron(joining()), perceptron(Batching::off()));
    warm(&session, &[1, 2, 3, 5, 8]);
    for rows in
        [&[1, 2, 5, 8][..], &[8, 5, 3], &[3, 3], &[1, 2, 3, 5, 8], &[2, 1, 1, 1], &[8, 8, 8, 8]]
    {
        let before = session.batching_stats();
        let inputs: Vec<Tensor> =
            rows.iter().enumerate().map(|(seed, &rows)| input(rows, seed)).collect();
        for (outputs, input) in together(&session, &inputs).into_iter().zip(&inputs) {
            let outputs = outputs.unwrap();
            assert_eq!(outputs.tensor("y").unwrap().shape(), input.shape());
            assert_eq!(y(&outputs), y(&alone.run([input]).unwrap()), "{rows:?}");
        }
        let stats = session.batching_stats();
        assert_eq!(stats.sizes[rows.len() - 1], before.sizes[rows.len() - 1] + 1);
        assert_eq!(stats.rows, before.rows + rows.iter().sum::<usize>() as u64);
        assert_eq!(stats.repeated, 0);
    }
    let text = session.batching_stats().to_string();
    assert!(text.contains("batches of ") && text.contains(" rows"), "{text}");
}

/// Numbers on the host go to the device at once, and so do the rows for nobody.
#[test]
fn calls_of_any_rows_bring_numbers_on_the_host() {
    let (session, alone) = (perceptron(joining()), perceptron(Batching::off()));
    warm(&session, &[1, 3, 5]);
    let input = |rows: usize| Array::from_slice(&numbers(8 * rows, rows), &[rows, 8]).unwrap();
    let held = Held::with(&session, [input(1)]);
    let mut calls: Vec<_> =
        [3, 5, 3].map(|rows| session.submit([input(rows)], &Call::new())).into();
    assert_eq!(y(&held.go_on()), y(&alone.run([input(1)]).unwrap()));
    for (call, rows) in calls.iter_mut().zip([3, 5, 3]) {
        assert_eq!(y(&ended(call).unwrap()), y(&alone.run([input(rows)]).unwrap()));
    }
    assert_eq!(session.batching_stats().sizes[3], 1);
}

/// A call of several rows enters as so many of one row, and no plans for batches of its own are made.
#[test]
fn calls_of_several_rows_enter_the_group_of_calls_of_one() {
    let session = perceptron(joining());
    warm(&session, &[3, 1, 32, 33]);
    let (one, rows) = entered(&session, [&input(1, 0)]);
    assert_eq!(rows, 1);
    let (three, rows) = entered(&session, [&input(3, 0)]);
    assert!(Arc::ptr_eq(&one, &three) && rows == 3);
    assert_eq!(entered(&session, [&input(32, 0)]).1, 32);
    // Two of these do not fit in a batch, so they are joined with those of as many rows.
    let (own, rows) = entered(&session, [&input(33, 0)]);
    assert!(!Arc::ptr_eq(&one, &own) && rows == 1);
    let before = session.batching_stats();
    let inputs = [0, 1].map(|seed| input(33, seed));
    assert!(together(&session, &inputs).iter().all(Result::is_ok));
    let stats = session.batching_stats();
    assert_eq!((stats.sizes[1] - before.sizes[1], stats.rows - before.rows), (1, 2));
    assert_eq!(stats.in_flight, Some(1));
    assert!(stats.not_joined.is_empty(), "{stats}");
}

/// A row that is no row of the table: its call fails, whichever of its rows it is.
#[test]
fn a_wrong_row_fails_its_own_call_only() {
    let session = lookup(joining());
    [1, 2, 3].iter().for_each(|&rows| session.warm_up(&[("ids", &[rows, 1])]).unwrap());
    let ids = |ids: &[i64]| Tensor::from_slice(ids, &[ids.len(), 1], &device()).unwrap();
    let inputs = [ids(&[4]), ids(&[1, 2, 999]), ids(&[7, 8]), ids(&[0, 5, 9])];
    let answers = together(&session, &inputs);
    let alone = lookup(Batching::off());
    for (at, (answer, input)) in answers.into_iter().zip(&inputs).enumerate() {
        if at == 1 {
            assert!(matches!(answer, Err(crate::Error::Fault { .. })), "{answer:?}");
        } else {
            assert_eq!(y(&answer.unwrap()), y(&alone.run([input]).unwrap()));
        }
    }
    let stats = session.batching_stats();
    assert_eq!((stats.sizes[3], stats.repeated), (1, 1));
}

/// A softmax over so many rows of a call as this can be divided by, up to three.
#[derive(Debug)]
struct MixesThree;

impl Operator for MixesThree {
    fn kind(&self) -> &str {
        "MixesThree"
    }

    fn expand(&self, at: &mut Expander<'_>, inputs: &[Option<Value>]) -> Expanded<Vec<Value>> {
        use crate::view::{Sizes, View};
        let x = inputs[0].as_ref().expect("an input").tensor()?;
        let rows = at.shape(x)[0];
        let mixed = if rows.is_multiple_of(3) { 3 } else { 1 };
        let parts = Sizes::from_slice(&[rows / mixed, mixed, 8]);
        let parts = at.view(View::Reshape(parts), x)?;
        let soft = at.apply(Op::Softmax { axis: 1, log: false }, &[parts])?;
        let whole = View::Reshape(Sizes::from_slice(&[rows, 8]));
        Ok(vec![at.view(whole, soft)?.into()])
    }
}

/// Calls of three rows can be joined, and calls of one, but three rows are not three calls of one.
#[test]
fn calls_whose_rows_read_each_other_are_not_mixed() {
    let build = |batching| {
        let mut writer = Writer::new();
        let x = writer.input("x", DType::F32, rows());
        let y = writer.node(MixesThree, &[x]);
        writer.session(y, batching)
    };
    let (session, alone) = (build(joining()), build(Batching::off()));
    warm(&session, &[3, 1, 2]);
    assert_eq!([1, 2, 3].map(|rows| entered(&session, [&input(rows, 0)]).1), [1, 2, 1]);
    let joinable = session.joinable(&[("x", &[3, 8])]).unwrap();
    assert!(matches!(joinable, Joinable::Yes { .. }), "{joinable}");
    for rows in [[3, 3, 3, 3], [1, 2, 1, 2]] {
        let inputs: Vec<Tensor> =
            rows.iter().enumerate().map(|(seed, &rows)| input(rows, seed)).collect();
        for (outputs, input) in together(&session, &inputs).into_iter().zip(&inputs) {
            assert_eq!(y(&outputs.unwrap()), y(&alone.run([input]).unwrap()), "{rows:?}");
        }
    }
    assert_eq!(session.batching_stats().sizes[3], 2);
}

/// What is assumed is that calls can be joined, and not their rows.
#[test]
fn assumptions_are_for_calls_and_not_for_their_rows() {
    let session = perceptron(joining().assume_batchable(0));
    warm(&session, &[1, 3]);
    assert_eq!(entered(&session, [&input(3, 0)]).1, 1);
}

/// All calls have as many rows, so there is nothing to mix.
#[test]
fn a_number_of_rows_that_the_model_fixes_stays_a_call() {
    let mut writer = Writer::new();
    let x = writer.input("x", DType::F32, vec![Dim::Known(4), Dim::Known(8)]);
    let exp = writer.node(Apply(Op::Unary { op: UnaryOp::Exp }), &[x]);
    let session = writer.session(exp, joining());
    warm(&session, &[4]);
    assert_eq!(entered(&session, [&input(4, 0)]).1, 1);
    let inputs = [0, 1, 2].map(|seed| input(4, seed));
    assert!(together(&session, &inputs).iter().all(Result::is_ok));
    assert_eq!(session.batching_stats().sizes[2], 1);
}

/// Rows may lie on an inner axis, an input may be the same for all, and outputs may be inputs.
#[test]
fn rows_of_an_inner_axis_and_shared_inputs_stay_what_they_are() {
    let build = |batching| {
        let mut writer = Writer::new();
        let batch = || Dim::Named("batch".into());
        let x = writer.input("x", DType::F32, vec![batch(), Dim::Known(8)]);
        let state = writer.input("state", DType::F32, vec![Dim::Known(2), batch(), Dim::Known(4)]);
        let rate = writer.input("rate", DType::F32, vec![]);
        let y = writer.node(binary(BinaryOp::Mul), &[state, rate]);
        let relu = writer.node(Apply(Op::Unary { op: UnaryOp::Relu }), &[x]);
        writer.body.add_output("relu", relu, ValueType::Tensor(DType::F32, None));
        writer.body.add_output("given", x, ValueType::Tensor(DType::F32, None));
        writer.session(y, batching)
    };
    let (session, alone) = (build(joining()), build(Batching::off()));
    let rate = |rate: f32| tensor(&[rate], &[]);
    let (slow, fast) = (rate(0.5), rate(2.0));
    let inputs = |rows: usize, rate: &Tensor| {
        let state = tensor(&numbers(8 * rows, rows + 7), &[2, rows, 4]);
        [("x", input(rows, rows)), ("state", state), ("rate", rate.clone())]
    };
    for rows in [1, 2, 3] {
        session.warm_up_with(inputs(rows, &slow)).unwrap();
        assert_eq!(entered(&session, inputs(rows, &slow)).1, rows);
    }
    let held = Held::with(&session, inputs(2, &slow));
    let others = [(3, &slow), (1, &fast), (3, &fast), (1, &slow)];
    let mut calls = others.map(|(rows, rate)| session.submit(inputs(rows, rate), &Call::new()));
    drop(held.go_on());
    for ((rows, rate), call) in others.into_iter().zip(&mut calls) {
        let (joined, alone) = (ended(call).unwrap(), alone.run(inputs(rows, rate)).unwrap());
        for output in ["y", "relu", "given"] {
            let [joined, alone] = [&joined, &alone].map(|outputs| outputs.tensor(output).unwrap());
            assert_eq!(joined.shape(), alone.shape());
            assert_eq!(joined.to_vec::<f32>().unwrap(), alone.to_vec::<f32>().unwrap());
        }
    }
    assert_eq!(session.batching_stats().sizes[4], 1);
}

/// Each thread has another number of rows, so no two calls of as many ever meet. That others are there is enough.
#[test]
fn calls_of_different_rows_that_meet_are_joined_behind_the_calls() {
    let (session, alone) = (perceptron(joining()), perceptron(Batching::off()));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for rows in [1, 2, 3, 5] {
            let (session, alone) = (&session, &alone);
            scope.spawn(move || {
                let input = input(rows, rows);
                let expected = y(&alone.run([&input]).unwrap());
                let is_joined = || {
                    [2, 3, 5]
                        .iter()
                        .all(|&rows| entered(session, [&self::input(rows, 0)]).1 == rows)
                };
                let mut left = 20;
                while left > 0 {
                    assert_eq!(y(&session.run([&input]).unwrap()), expected);
                    assert!(begun.elapsed() < Duration::from_secs(60), "they are never joined");
                    left -= usize::from(is_joined());
                }
            });
        }
    });
    assert!(session.batching_stats().rows > session.batching_stats().calls());
}

/// There is room for two groups. The one of one row makes room for others; it is proved again behind the calls, which go on meanwhile.
#[test]
fn calls_of_several_rows_enter_again_when_their_group_is_another() {
    let mut writer = Writer::new();
    let x = writer.input("x", DType::F32, rows());
    let exp = writer.node(Apply(Op::Unary { op: UnaryOp::Exp }), &[x]);
    writer.body.add_output("y", exp, ValueType::Tensor(DType::F32, None));
    let session =
        Session::builder(&device()).batching(joining()).plans(5).build(writer.body).unwrap();
    warm(&session, &[1, 3]);
    let (first, rows) = entered(&session, [&input(3, 0)]);
    assert_eq!(rows, 3);
    let expected = y(&session.run([&input(3, 1)]).unwrap());
    let _others = [40, 41].map(|rows| entered(&session, [&input(rows, 0)]));
    let begun = Instant::now();
    let again = loop {
        assert_eq!(y(&session.run([&input(3, 1)]).unwrap()), expected);
        match entered(&session, [&input(3, 0)]) {
            (group, 3) => break group,
            (_, rows) => assert_eq!(rows, 1),
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "they never enter again");
    };
    assert!(!Arc::ptr_eq(&first, &again));
    assert!(Arc::ptr_eq(&again, &entered(&session, [&input(1, 0)]).0));
    let inputs = [input(3, 1), input(1, 2)];
    let answers: Vec<_> =
        together(&session, &inputs).into_iter().map(|outputs| y(&outputs.unwrap())).collect();
    assert_eq!(answers[0], expected);
}

/// An output that says how many rows the input has.
#[derive(Debug)]
struct CountRows;

impl Operator for CountRows {
    fn kind(&self) -> &str {
        "CountRows"
    }

    fn expand(&self, at: &mut Expander<'_>, inputs: &[Option<Value>]) -> Expanded<Vec<Value>> {
        let x = inputs[0].as_ref().expect("an input").tensor()?;
        Ok(vec![at.constant(Array::scalar(at.shape(x)[0] as f32)).into()])
    }
}

/// An output that follows from the shapes alone is that of the call, and not of its batch. Calls of several rows have another one than
/// calls of one, and are not mixed.
#[test]
fn an_output_that_counts_rows_counts_those_of_the_call() {
    let mut writer = Writer::new();
    let x = writer.input("x", DType::F32, rows());
    let relu = writer.node(Apply(Op::Unary { op: UnaryOp::Relu }), &[x]);
    let count = writer.node(CountRows, &[x]);
    writer.body.add_output("rows", count, ValueType::Tensor(DType::F32, None));
    let session = writer.session(relu, joining());
    warm(&session, &[1, 3]);
    assert_eq!(entered(&session, [&input(3, 0)]).1, 1);
    for rows in [1, 3] {
        let inputs = [0, 1, 2].map(|seed| input(rows, seed));
        // The first leads, and has no names for further outputs.
        for outputs in together(&session, &inputs).into_iter().skip(1) {
            let count = outputs.unwrap().tensor("rows").unwrap().to_vec::<f32>().unwrap();
            assert_eq!(count, [rows as f32]);
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(12))]

    /// Any interleaving of calls of any rows gives the bits of calls one after another.
    #[test]
    fn any_interleaving_of_calls_of_any_rows_gives_their_own_bits(
        calls in proptest::collection::vec((0usize..1000, 0usize..5), 1..40),
        threads in 1usize..6,
        in_flight in 1usize..4,
        most in 2usize..20,
    ) {
        const ROWS: [usize; 5] = [1, 2, 3, 5, 8];
        let session = perceptron(Batching::new().always().in_flight(in_flight).most(most));
        warm(&session, &ROWS);
        let alone = perceptron(Batching::off());
        let inputs: Vec<Tensor> =
            calls.iter().map(|&(seed, rows)| input(ROWS[rows], seed)).collect();
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
