//! The suite run on its own answers: cases are valid, names are unique, checks accept what is right.

use std::collections::HashSet;
use std::time::Instant;

use millstream_conformance::{ReferenceTarget, cases, proptest_target, run_all};
use millstream_core::OpKind;

#[test]
fn the_reference_passes_every_case_and_property() {
    let start = Instant::now();
    let report = run_all(&ReferenceTarget);
    println!("{report}in {:?}", start.elapsed());
    assert!(report.is_clean(), "{report}");
    assert!(report.passed > 5000, "cases went missing: {report}");
    assert!(report.skipped.is_empty() && report.uncovered.is_empty(), "{report}");
}

#[test]
fn arbitrary_cases_are_valid_and_hold_for_the_reference() {
    proptest_target(&ReferenceTarget, 2000);
}

#[test]
fn names_are_unique() {
    let mut names = HashSet::new();
    for &kind in OpKind::ALL {
        for case in cases(kind) {
            assert_eq!(case.op.kind(), kind, "{}", case.name);
            assert!(names.insert(case.name.clone()), "{} is there twice", case.name);
        }
    }
}
