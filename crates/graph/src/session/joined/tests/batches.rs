//! Which calls become one batch, and that each gets its own answer.

use super::*;

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

/// The profiler has a span for each batch, with its calls and what they waited.
#[test]
fn batches_are_in_the_trace_of_the_device() {
    let own = Device::builder("cpu").open().unwrap();
    let session = perceptron_on(&own, joining());
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let input = |seed| Array::from_slice(&numbers(8, seed), &[1, 8]).unwrap();
    let batch = |calls: usize| {
        let held = Held::with(&session, [input(0)]);
        let mut calls: Vec<_> =
            (1..calls).map(|seed| session.submit([input(seed)], &Call::new())).collect();
        held.go_on();
        assert!(calls.iter_mut().all(|call| ended(call).is_ok()));
    };
    batch(2);
    own.profiler().start();
    batch(3);
    batch(1);
    own.profiler().stop();
    batch(2);
    let joined = own.profiler().take_trace().joined;
    assert_eq!(joined.iter().map(|span| span.calls).collect::<Vec<_>>(), [3, 1]);
    assert!(joined[0].end_ns <= joined[1].start_ns);
    assert!(joined.iter().all(|span| span.start_ns < span.end_ns && span.queued_ns > 0));
    assert!(joined[0].longest_queued_ns < joined[0].queued_ns, "three calls waited");
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
