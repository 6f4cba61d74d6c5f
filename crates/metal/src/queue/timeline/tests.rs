use super::*;

fn open(timeline: &Timeline, completes: Completion) {
    timeline.commit(completes, |_| {});
}

#[test]
fn a_batch_counts_when_it_is_committed_and_its_command_buffer_before() {
    let timeline = Timeline::default();
    timeline.commit(Completion::Batch(1), |number| {
        assert_eq!((timeline.committed(), timeline.batches()), (1, 0));
        // Its handler may come before the commit returns.
        timeline.handle(number);
    });
    assert_eq!((timeline.batches(), timeline.handled()), (1, 1));
}

#[test]
fn handlers_that_come_out_of_order_count_when_those_before_them_have_come() {
    let timeline = Timeline::default();
    for tick in 1..=3 {
        open(&timeline, Completion::Batch(tick));
    }
    assert_eq!((timeline.committed(), timeline.handled(), timeline.batches()), (3, 0, 3));
    timeline.handle(2);
    assert_eq!((timeline.handled(), timeline.open_count()), (0, 3));
    timeline.handle(1);
    assert_eq!((timeline.handled(), timeline.open_count()), (2, 1));
    open(&timeline, Completion::Batch(4));
    timeline.handle(3);
    assert_eq!((timeline.handled(), timeline.open_count()), (3, 1));
    timeline.handle(4);
    assert_eq!((timeline.handled(), timeline.open_count()), (4, 0));
}

#[test]
fn a_failure_belongs_to_its_batch_and_says_what_is_to_be_signaled() {
    let timeline = Timeline::default();
    let failure = |text: &str| Some(Failure::new("call", "name", text));
    open(&timeline, Completion::Part { tick: 1, gate: 1, time: None });
    open(&timeline, Completion::Batch(1));
    open(&timeline, Completion::Batch(2));
    assert_eq!(timeline.batches(), 2);
    assert_eq!(timeline.end(3, None), None);
    assert_eq!(timeline.failure(1), None);
    assert_eq!(
        timeline.end(1, failure("first")),
        Some(Completion::Part { tick: 1, gate: 1, time: None })
    );
    assert_eq!(timeline.end(2, failure("second")), Some(Completion::Batch(1)));
    assert_eq!(timeline.failure(1).unwrap().text, "first");
    assert_eq!(timeline.failure(2), None);
    // Old ones are forgotten.
    for tick in 10..10 + MAX_FAILURES as u64 {
        open(&timeline, Completion::Batch(tick));
        timeline.end(timeline.committed(), failure("later"));
    }
    assert_eq!(timeline.failure(1), None);
    assert_eq!(timeline.failure(10 + MAX_FAILURES as u64 - 1).unwrap().text, "later");
    // What writes a time is signaled by its handler in any case.
    let part = Completion::Part { tick: 3, gate: 2, time: Some(8) };
    open(&timeline, part);
    assert_eq!(timeline.end(timeline.committed(), None), Some(part));
}
