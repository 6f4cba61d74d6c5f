//! Outcomes by sequence number, and waits.

use super::*;

fn fault(sequence: u64) -> Error {
    Error::Fault { stream: 0, sequence, command: "fill", layer: None, message: "planted".into() }
}

#[test]
fn a_fault_covers_its_commands_and_nothing_else() {
    let progress = Progress::new();
    progress.fail(3, 4, fault(3));
    progress.advance(6);
    assert_eq!(progress.outcome(2), Outcome::Done);
    assert_eq!(progress.outcome(3), Outcome::Failed(fault(3)));
    assert_eq!(progress.outcome(4), Outcome::Failed(fault(3)));
    assert_eq!(progress.outcome(5), Outcome::Done);
    assert_eq!(progress.outcome(7), Outcome::Pending);
}

#[test]
fn a_fault_is_known_at_once_but_has_passed_only_when_the_device_is_through() {
    let progress = Progress::new();
    progress.fail(5, 6, fault(5));
    assert_eq!(progress.outcome(4), Outcome::Pending);
    assert_eq!(progress.outcome(5), Outcome::Failed(fault(5)));
    assert!(!progress.passed(5));
    progress.advance(5);
    assert!(progress.passed(5) && !progress.passed(6));
}

#[test]
fn a_lost_device_fails_what_is_pending_only() {
    let progress = Progress::new();
    progress.advance(2);
    let lost = Error::DeviceLost { device: "fake".into(), reason: "gone".into() };
    progress.lose(lost.clone());
    assert_eq!(progress.outcome(2), Outcome::Done);
    assert_eq!(progress.outcome(3), Outcome::Failed(lost));
    assert!(progress.passed(3), "the device touches nothing any more");
}

#[test]
fn each_fault_is_reported_once_by_a_wait_for_everything() {
    let progress = Progress::new();
    for sequence in [2, 5, 7] {
        progress.fail(sequence, sequence, fault(sequence));
    }
    assert_eq!(progress.report(5), Some(fault(5)));
    assert_eq!(progress.report_first(1), None);
    assert_eq!(progress.report_first(6), Some(fault(2)));
    assert_eq!(progress.report_first(6), None, "the one at 5 was reported to its caller");
    assert_eq!(progress.report_first(7), Some(fault(7)));
}

#[test]
fn the_list_is_bounded_and_nothing_good_becomes_a_failure() {
    let progress = Progress::new();
    let kept = MAX_FAILURES as u64;
    for index in 0..1000 {
        progress.fail(index * 10 + 1, index * 10 + 2, fault(index * 10 + 1));
    }
    progress.advance(100_000);
    assert_eq!(progress.log().failures.len(), MAX_FAILURES);
    for index in 0..1000 {
        let failed = progress.outcome(index * 10 + 1) != Outcome::Done;
        assert_eq!(failed, index >= 1000 - kept, "{index}");
        assert_eq!(progress.outcome(index * 10 + 3), Outcome::Done);
    }
    assert_eq!(progress.faults().0, 1000);
}

#[test]
fn a_fault_releases_waiters() {
    let progress = Progress::new();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| progress.wait(1, None));
        progress.fail(1, 1, fault(1));
        assert_eq!(waiter.join().unwrap(), Outcome::Failed(fault(1)));
    });
}
