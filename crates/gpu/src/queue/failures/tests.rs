use super::*;

fn error(text: &str) -> Error {
    Error::DeviceClosed { device: text.into() }
}

#[test]
fn a_command_has_its_own_error_before_that_of_the_rest() {
    let mut failures = Failures::default();
    assert!(failures.is_empty() && failures.of(0).is_none());
    failures.add(1, error("one"));
    failures.add(4, error("four"));
    failures.add_rest(3, error("rest"));
    let found: Vec<_> = (0..6).map(|index| failures.of(index).cloned()).collect();
    let [one, four, rest] = ["one", "four", "rest"].map(|text| Some(error(text)));
    assert_eq!(found, [None, one, None, rest.clone(), four, rest]);
    assert!(!failures.is_empty());
}

#[test]
fn a_batch_can_fail_as_a_whole() {
    let failures = Failures::all(error("all"));
    assert!((0..9).all(|index| failures.of(index) == Some(&error("all"))));
}
