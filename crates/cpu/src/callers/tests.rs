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

/// Two that take turns both leave a core to the other, also when one of them leaves twice in a row.
#[test]
fn who_leaves_twice_does_not_hide_another() {
    let callers = Callers::new();
    callers.leaves_at(1, 1000);
    callers.leaves_at(2, 1100);
    callers.leaves_at(2, 1200);
    assert!(callers.expects_another_at(2, 1200));
    assert!(callers.expects_another_at(1, 1200));
    assert!(!callers.expects_another_at(2, 1000 + KEPT));
}
