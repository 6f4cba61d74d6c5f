use super::*;

#[test]
fn callers_share_one_process_of_the_rate_that_was_asked_for() {
    let mut process = Process { mean: 1e-3, last: None, random: 7 };
    let first = process.next();
    let times: Vec<Instant> = (0..10_000).map(|_| process.next()).collect();
    assert!(times.windows(2).all(|pair| pair[0] <= pair[1]));
    let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
    // Gaps of a Poisson process: mean and deviation are the same.
    let mean = (times[times.len() - 1] - first).as_secs_f64() / times.len() as f64;
    let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    assert!((mean / 1e-3 - 1.0).abs() < 0.05, "{mean}");
    assert!((square.sqrt() / 1e-3 - 1.0).abs() < 0.05, "{}", square.sqrt());
}

#[test]
fn a_call_is_sent_when_it_is_due_and_none_after_the_end() {
    let schedule = Schedule::new(Arrivals::Poisson(2000.0));
    schedule.prepare_caller();
    let end = Instant::now() + Duration::from_millis(20);
    let mut sent = 0;
    while let Some(due) = schedule.wait(end) {
        assert!(due < end && Instant::now() >= due);
        sent += 1;
    }
    assert!(sent > 0);
    let far = Schedule::new(Arrivals::Poisson(0.001));
    assert_eq!(far.wait(Instant::now()), None);
}

#[test]
fn without_arrivals_a_call_is_sent_at_once() {
    let schedule = Schedule::new(Arrivals::Closed);
    let now = Instant::now();
    assert!(schedule.wait(now).is_some_and(|due| due >= now));
}
