//! What is assumed and not proved, and how it is checked.

use super::*;

/// `y = x - mean over the rows`: the answer of a call depends on who is in its batch.
fn centered(batching: Batching) -> Session {
    let mut writer = Writer::new();
    let x = writer.input("x", DType::F32, rows());
    let axes = millstream_core::Axes::new(&[0]).unwrap();
    let mean = writer.node(Apply(Op::Reduce { op: ReduceOp::Mean, axes }), &[x]);
    let y = writer.node(binary(BinaryOp::Sub), &[x, mean]);
    writer.session(y, batching)
}

fn inputs(count: usize) -> Vec<Tensor> {
    (0..count).map(|seed| tensor(&numbers(8, seed), &[1, 8])).collect()
}

fn all_y(results: Vec<crate::Result<Outputs>>) -> Vec<Vec<f32>> {
    results.into_iter().map(|outputs| y(&outputs.unwrap())).collect()
}

fn assumed() -> Batching {
    joining().assume_batchable(0)
}

/// A user may know what cannot be proved.
#[test]
fn what_is_assumed_is_not_proved() {
    let mut writer = Writer::new();
    let x = writer.input("x", DType::F32, rows());
    let times = writer.node(TimesRows, &[x]);
    let session = writer.session(times, assumed());
    let yes = Joinable::Yes { axes: vec![("x".into(), Some(0))] };
    assert_eq!(session.joinable(&[("x", &[1, 8])]).unwrap(), yes);
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let inputs: Vec<Tensor> = (0..2).map(|_| tensor(&[1.0; 8], &[1, 8])).collect();
    let answers: Vec<f32> = all_y(together(&session, &inputs)).iter().map(|y| y[0]).collect();
    // Wrong, as was asked for: the two that were joined count two rows.
    assert_eq!(answers, [2.0, 2.0]);
}

/// The first batch already shows that the assumption is wrong: its calls get the right answers, and none are joined from then on.
#[test]
fn a_wrong_assumption_is_noticed_and_joining_ends() {
    let session = centered(assumed().check_assumption(1000));
    let alone = centered(Batching::off());
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let inputs = inputs(3);
    let expected: Vec<_> = inputs.iter().map(|input| y(&alone.run([input]).unwrap())).collect();
    assert_eq!(all_y(together(&session, &inputs)), expected);
    let stats = session.batching_stats();
    assert_eq!((stats.checked, stats.in_flight), (1, None));
    let [reason] = &stats.not_joined[..] else { panic!("no reason: {stats}") };
    assert!(reason.contains("axis 0") && reason.contains("\"y\"") && reason.contains("batch of 3"));
    let joinable = session.joinable(&[("x", &[1, 8])]).unwrap();
    assert!(
        matches!(&joinable, Joinable::No { reason: why, .. } if reason.contains(why)),
        "{joinable}"
    );
    for (input, expected) in inputs.iter().zip(&expected) {
        assert_eq!(y(&session.run([input]).unwrap()), *expected);
    }
    assert_eq!(session.batching_stats().batches(), 1, "calls run by themselves");
}

/// Calls that queued when it was noticed, and a batch that had begun: nobody gets an answer of a batch any more.
#[test]
fn calls_on_their_way_are_answered_rightly_when_an_assumption_fails() {
    let session = centered(assumed().most(2).check_assumption(1000));
    let alone = centered(Batching::off());
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let inputs = inputs(6);
    let expected: Vec<_> = inputs.iter().map(|input| y(&alone.run([input]).unwrap())).collect();
    // Three batches of two: the first is checked, the others only queue.
    assert_eq!(all_y(together(&session, &inputs)), expected);
    let stats = session.batching_stats();
    assert_eq!((stats.checked, stats.sizes[1]), (1, 3));
}

#[test]
fn a_batch_that_had_begun_is_run_again_when_an_assumption_fails() {
    let session = centered(assumed());
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let inputs = inputs(2);
    let mut held = Held::new(&session, &[&inputs[0]]);
    let mut other = session.submit([&inputs[1]], &Call::new());
    held.batch.fill();
    let running = super::super::run::Running::begin(&held.group, held.batch.jobs()).unwrap();
    let _ = held.group.context.refuted.set(crate::separate::Obstacle::of("another batch says so"));
    running.wait();
    let next = running.finish(&held.group, held.batch.jobs()).unwrap();
    let super::super::run::Finished::Again(again) = next else { panic!("its answers are kept") };
    drop(again);
    held.go_on();
    let alone = centered(Batching::off());
    assert_eq!(y(&ended(&mut other).unwrap()), y(&alone.run([&inputs[1]]).unwrap()));
}

/// An assumption that holds: the first batches are checked and then each third, and all are joined.
#[test]
fn a_right_assumption_is_kept() {
    let (session, alone) = (perceptron(assumed().check_assumption(3)), perceptron(Batching::off()));
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let inputs = inputs(4);
    let expected: Vec<_> = inputs.iter().map(|input| y(&alone.run([input]).unwrap())).collect();
    for _ in 0..14 {
        assert_eq!(all_y(together(&session, &inputs)), expected);
    }
    let stats = session.batching_stats();
    // The first 8, the 9th and the 12th.
    assert_eq!((stats.checked, stats.sizes[3], stats.repeated), (10, 14, 0), "{stats}");
    assert!(stats.in_flight.is_some() && stats.not_joined.is_empty(), "{stats}");
}

/// Outputs that are too large for the host are compared too, and so are calls that fail by themselves.
#[test]
fn large_outputs_are_checked_and_wrong_calls_fail_alone() {
    let session = centered(assumed().host_bytes(0).check_assumption(1));
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    assert!(together(&session, &inputs(3)).iter().all(Result::is_ok));
    assert_eq!(session.batching_stats().not_joined.len(), 1);

    let session = lookup(assumed().check_assumption(1));
    session.warm_up(&[("ids", &[1, 1])]).unwrap();
    let failed: Vec<bool> =
        together(&session, &[3, 999, 9].map(ids)).iter().map(Result::is_err).collect();
    assert_eq!(failed, [false, true, false]);
    assert!(session.batching_stats().not_joined.is_empty());
}

/// Where it is proved that calls can be joined, there is nothing to check.
#[test]
fn what_is_proved_is_not_checked() {
    let session = perceptron(joining().check_assumption(1));
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    together(&session, &inputs(3));
    assert_eq!(session.batching_stats().checked, 0);
}
