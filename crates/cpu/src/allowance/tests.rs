use super::*;

#[test]
fn work_is_begun_in_proportion_to_the_time_left() {
    let now = Instant::now();
    let deadline = now + Duration::from_secs(1);
    let mut allowance = Allowance::until(deadline, now);
    assert!(allowance.begins_at(PER_SECOND, deadline, now));
    assert!(!allowance.begins_at(PER_SECOND + 1, deadline, now));
    let later = now + Duration::from_millis(750);
    assert!(allowance.begins_at(PER_SECOND / 4, deadline, later));
    assert!(!allowance.begins_at(PER_SECOND / 4 + 1, deadline, later));
    assert!(!allowance.begins_at(0, deadline, deadline));
    // A deadline that is ages away allows everything, also what has no end.
    assert_eq!(work_within(Duration::MAX), u64::MAX);
}

#[test]
fn the_clock_is_read_now_and_then_only() {
    let now = Instant::now();
    let mut allowance = Allowance::until(now + Duration::from_secs(30), now);
    // The deadline is moved to the past: only reading the clock shows it.
    allowance.deadline = Some(now);
    assert!(allowance.begins(|| CLOCK_INTERVAL / 2) && allowance.begins(|| CLOCK_INTERVAL / 2));
    assert!(!allowance.begins(|| 1));
}

#[test]
fn usual_work_of_a_usual_call_is_the_callers() {
    let now = Instant::now();
    let mut allowance = Allowance::until(now + Duration::from_secs(30), now);
    // A product of 4096 x 4096 x 4096.
    assert!(allowance.begins(|| (1 << 36) / 16));
    assert!(Allowance::unlimited().begins(|| u64::MAX));
}
