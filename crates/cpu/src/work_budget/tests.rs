use super::*;

#[test]
fn work_is_begun_in_proportion_to_the_time_left() {
    let now = Instant::now();
    let deadline = now + Duration::from_secs(1);
    let mut budget = WorkBudget::until(deadline, now);
    assert!(budget.try_spend_at(PER_SECOND, deadline, now));
    assert!(!budget.try_spend_at(PER_SECOND + 1, deadline, now));
    let later = now + Duration::from_millis(750);
    assert!(budget.try_spend_at(PER_SECOND / 4, deadline, later));
    assert!(!budget.try_spend_at(PER_SECOND / 4 + 1, deadline, later));
    assert!(!budget.try_spend_at(0, deadline, deadline));
    // A deadline that is ages away allows everything, also what has no end.
    assert_eq!(work_within(Duration::MAX), u64::MAX);
}

#[test]
fn the_clock_is_read_now_and_then_only() {
    let now = Instant::now();
    let mut budget = WorkBudget::until(now + Duration::from_secs(30), now);
    // The deadline is moved to the past: only reading the clock shows it.
    budget.deadline = Some(now);
    assert!(budget.try_spend(|| CLOCK_INTERVAL / 2) && budget.try_spend(|| CLOCK_INTERVAL / 2));
    assert!(!budget.try_spend(|| 1));
}

#[test]
fn usual_work_of_a_usual_call_is_the_callers() {
    let now = Instant::now();
    let mut budget = WorkBudget::until(now + Duration::from_secs(30), now);
    // A product of 4096 x 4096 x 4096.
    assert!(budget.try_spend(|| (1 << 36) / 16));
    assert!(WorkBudget::unlimited().try_spend(|| u64::MAX));
}
