//! What becomes of a call that does not simply get its answer: a test for each row of the table in `docs/batching.md`.

use super::*;

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

/// One queues, the others wait for room: futures, and threads that sleep. All are answered, and a deadline ends the wait.
#[test]
fn a_call_may_wait_for_room_in_the_queue() {
    let (session, alone) =
        (perceptron(joining().queue(1).wait_when_full()), perceptron(Batching::off()));
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let inputs: Vec<Tensor> = (0..7).map(|seed| tensor(&numbers(8, seed), &[1, 8])).collect();
    let expected: Vec<_> = inputs.iter().map(|input| y(&alone.run([input]).unwrap())).collect();
    let held = Held::new(&session, &[&inputs[0]]);
    let mut calls: Vec<_> =
        inputs[1..4].iter().map(|input| session.submit([input], &Call::new())).collect();
    let within = Call::new().within(Duration::from_millis(1));
    let late = session.run_with([&inputs[0]], &within);
    assert!(matches!(late, Err(crate::Error::Late)), "{late:?}");
    std::thread::scope(|scope| {
        let session = &session;
        let blocked: Vec<_> =
            inputs[4..].iter().map(|input| scope.spawn(move || session.run([input]))).collect();
        let begun = Instant::now();
        while session.batching_stats().waited_for_room < 6 {
            assert!(begun.elapsed() < Duration::from_secs(60), "they do not wait");
            std::thread::yield_now();
        }
        assert_eq!(y(&held.go_on()), expected[0]);
        let polled = calls.iter_mut().map(|call| y(&ended(call).unwrap()));
        assert_eq!(polled.collect::<Vec<_>>(), expected[1..4]);
        let slept = blocked.into_iter().map(|call| y(&call.join().unwrap().unwrap()));
        assert_eq!(slept.collect::<Vec<_>>(), expected[4..]);
    });
    let stats = session.batching_stats();
    assert_eq!((stats.rejected, stats.late, stats.calls()), (0, 1, 7));
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
    let stats = session.batching_stats();
    assert_eq!((stats.late, stats.sizes[1]), (1, 1), "what is late is not computed");
}

/// A thread that waits in `run` goes on at its deadline, though the batch before it is still there.
#[test]
fn a_wait_for_a_batch_ends_at_the_deadline() {
    let session = perceptron(joining());
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let input = tensor(&numbers(8, 1), &[1, 8]);
    let held = Held::new(&session, &[&input]);
    let late = session.run_with([&input], &Call::new().within(Duration::from_millis(1)));
    assert!(matches!(late, Err(crate::Error::Late)), "{late:?}");
    held.go_on();
    let stats = session.batching_stats();
    assert_eq!((stats.late, stats.sizes[1]), (1, 0), "it has left the queue");
    assert!(session.run([&input]).is_ok());
}

/// There are plans for powers of two at first. Another size is made of those, while its own is compiled behind the calls.
#[test]
fn a_size_without_a_plan_uses_others_until_it_has_one() {
    let (session, alone) = (perceptron(joining()), perceptron(Batching::off()));
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let inputs: Vec<Tensor> = (0..11).map(|seed| tensor(&numbers(8, seed), &[1, 8])).collect();
    let expected: Vec<_> = inputs.iter().map(|input| y(&alone.run([input]).unwrap())).collect();
    let held = Held::new(&session, &[&inputs[0]]);
    let group = Arc::clone(&held.group);
    held.go_on();
    let size = || group.plan_for(11).map(|(size, _)| size);
    let begun = Instant::now();
    loop {
        let answers: Vec<_> =
            together(&session, &inputs).into_iter().map(|outputs| y(&outputs.unwrap())).collect();
        assert_eq!(answers, expected);
        if size() == Some(12) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "the plan is never compiled");
    }
}

/// A task has the leading future among others, and one of these panics: the future is dropped, and another call leads.
#[test]
fn a_leader_that_is_dropped_by_a_panic_elsewhere_harms_nobody() {
    let session = perceptron(joining());
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let inputs: Vec<Tensor> = (0..4).map(|seed| tensor(&numbers(8, seed), &[1, 8])).collect();
    let mut held = Held::new(&session, &[&inputs[0]]);
    let submit = |input: &Tensor| session.submit([input], &Call::new());
    let mut calls: Vec<_> = inputs[1..].iter().map(submit).collect();
    held.batch.fill();
    // As the future says it where it waits for the device.
    held.batch.set_suspended(true);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _leads = held;
        std::panic::resume_unwind(Box::new("of another"));
    }));
    assert!(panicked.is_err());
    for call in &mut calls {
        assert!(ended(call).is_ok());
    }
}

/// The same of a call that is to lead and does not know it yet.
#[test]
fn a_call_that_is_to_lead_and_is_dropped_by_a_panic_elsewhere_harms_nobody() {
    let session = perceptron(joining());
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let input = tensor(&numbers(8, 1), &[1, 8]);
    let mut held = Held::new(&session, &[&input]);
    let [next, mut calls @ ..] = [0; 3].map(|_| session.submit([&input], &Call::new()));
    held.batch.fill();
    // All are handed to the oldest.
    drop(held);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _next = next;
        std::panic::resume_unwind(Box::new("of another"));
    }));
    assert!(panicked.is_err());
    for call in &mut calls {
        assert!(ended(call).is_ok());
    }
    assert_eq!(session.batching_stats().sizes[1], 1);
}

/// A delay collects calls, but not for longer than the one that leads has time.
#[test]
fn a_delay_does_not_outlast_a_deadline() {
    const DELAY: Duration = Duration::from_secs(120);
    let input = tensor(&numbers(8, 1), &[1, 8]);
    for delay in [DELAY, Duration::MAX] {
        let session = perceptron(joining().max_delay(delay));
        session.warm_up(&[("x", &[1, 8])]).unwrap();
        let begun = Instant::now();
        let _ = session.run_with([&input], &Call::new().within(Duration::from_millis(20)));
        assert!(begun.elapsed() < DELAY);
    }
}

/// The second call is in the batch of the first, which waits for it, though it could have one of its own.
#[test]
fn a_delay_gathers_calls_though_more_may_be_in_flight() {
    const DELAY: Duration = Duration::from_secs(120);
    let session = perceptron(Batching::new().always().in_flight(4).most(2).max_delay(DELAY));
    session.warm_up(&[("x", &[1, 8])]).unwrap();
    let input = tensor(&numbers(8, 1), &[1, 8]);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let calls = [0; 2].map(|_| scope.spawn(|| y(&session.run([&input]).unwrap())));
        let [a, b] = calls.map(|call| call.join().unwrap());
        assert_eq!(a, b);
    });
    assert!(begun.elapsed() < DELAY);
    assert_eq!(session.batching_stats().sizes[..2], [0, 1]);
}
