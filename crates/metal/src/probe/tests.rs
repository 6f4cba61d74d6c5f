use std::time::Duration;

use super::*;

/// A deadline that a busy machine keeps.
const LONG: Duration = Duration::from_secs(60);

fn options() -> ProbeOptions {
    ProbeOptions { deadline: LONG, idle: Duration::from_millis(500), ..ProbeOptions::default() }
}

fn run_one(deadline: Duration, run: fn(&Lab) -> RowResult) -> ProbeRow {
    let lab = Arc::new(Lab::open(&ProbeOptions { deadline, ..options() }).unwrap());
    run_check(Check { name: "one", assumed: "", run }, &lab)
}

#[test]
fn rows_have_names_of_their_own_in_small_letters() {
    let mut names: Vec<_> = checks().map(|check| check.name).collect();
    assert!(names.len() >= 30, "{}", names.len());
    for name in &names {
        assert!(
            name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
            "{name}"
        );
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), checks().count());
}

#[test]
fn every_row_stands_in_the_documentation_and_no_other() {
    let text = include_str!("../../../../docs/metal.md");
    let section = text.split("\n## What the backend rests on\n").nth(1).expect("the section");
    let section = section.split("\n## ").next().expect("its text");
    let listed: Vec<&str> = section
        .lines()
        .filter(|line| line.starts_with("| "))
        .filter_map(|line| line.rsplit('|').nth(1))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    for check in checks() {
        assert!(listed.contains(&check.name), "{} is missing", check.name);
    }
    for name in listed {
        assert!(checks().any(|check| check.name == name), "{name} is no row");
    }
}

#[test]
fn a_row_that_does_not_end_is_given_up_at_its_deadline() {
    let row = run_one(Duration::from_millis(500), |_| {
        std::thread::park_timeout(LONG);
        measured("late")
    });
    assert_eq!(row.outcome, ProbeOutcome::NotRun);
    assert!(row.found.contains("did not end within"), "{}", row.found);
}

#[test]
fn a_row_that_panics_or_fails_says_why() {
    let row = run_one(LONG, |_| panic!("seven"));
    assert_eq!((row.outcome, row.found.as_str()), (ProbeOutcome::NotRun, "it panicked: seven"));
    let row = run_one(LONG, |_| Err("no queue".into()));
    assert_eq!((row.outcome, row.found.as_str()), (ProbeOutcome::NotRun, "no queue"));
}

#[test]
fn a_name_that_no_row_has_is_an_error() {
    let options = ProbeOptions { rows: vec!["nonsense".into()], ..options() };
    let error = run(&options, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("nonsense") && error.contains("--list"), "{error}");
}
