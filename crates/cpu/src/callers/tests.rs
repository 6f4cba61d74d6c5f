use super::*;

#[test]
fn a_lone_caller_expects_nobody() {
    let callers = Callers::new();
    assert!(!callers.expects_another_at(3, 0));
    callers.leaves_at(3, 10);
    assert!(!callers.expects_another_at(3, 11));
}

#[test]
fn a_core_is_kept_for_another_caller_for_a_while() {
    let callers = Callers::new();
    callers.leaves_at(63, 1000);
    assert!(callers.expects_another_at(0, 1000));
    assert!(callers.expects_another_at(0, 1000 + KEPT - 1));
    assert!(!callers.expects_another_at(0, 1000 + KEPT));
    assert!(!callers.expects_another_at(63, 1001));
}
