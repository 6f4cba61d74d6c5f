//! ONNX's own tests on the Metal device, on the driver, with the kernels that GPUs have. `MILLSTREAM_NODE_TESTS` is the folder of
//! the exported cases, `MILLSTREAM_NODE_TESTS_PART=3/10` runs a tenth, and `MILLSTREAM_NODE_TESTS_ONLY` those whose name has a text
//! in it.
//!
//! What `crates/onnx` knows to fail on the CPU device is left out. What fails here alone is on `node_tests_known.txt`, which may only
//! shrink. A device without 64-bit floating point may refuse cases by saying so.

#[path = "../../onnx/tests/shared/case.rs"]
mod case;
#[path = "../../onnx/tests/shared/compare.rs"]
mod compare;
#[path = "../../onnx/tests/node_tests/known.rs"]
mod known;
#[path = "../../onnx/tests/node_tests/report.rs"]
mod report;
#[path = "../../onnx/tests/node_tests/suite.rs"]
mod suite;

use std::time::Duration;

use millstream_core::Device;
use millstream_cpu as _;
use millstream_graph::Passes;
use millstream_metal_driver::{control, rules};

use case::{Case, Outcome};
use suite::Mode;

/// Seen from the program that has this test.
const FAIL_EVERYWHERE: &str = "../../../onnx/tests/node_tests/known_failures.txt";
const FAIL_HERE: &str = "../../tests/node_tests_known.txt";

/// Which part of how many is run.
fn part() -> (usize, usize) {
    let Ok(chosen) = std::env::var("MILLSTREAM_NODE_TESTS_PART") else { return (1, 1) };
    let parts =
        chosen.split_once('/').and_then(|(own, all)| Some((own.parse().ok()?, all.parse().ok()?)));
    parts.filter(|(own, all)| 0 < *own && own <= all).expect("a part is as in 3/10")
}

/// Whether a device without 64-bit floating point said so, as it should.
fn is_refused(outcome: &Outcome) -> bool {
    outcome.as_ref().is_err_and(|reason| reason.contains("64-bit floating point"))
}

#[test]
fn node_tests_pass_on_the_metal_device() {
    let Some(folder) = suite::folder() else { return };
    let only = suite::only();
    let (own, all) = part();
    let mut known = suite::known_failures(FAIL_HERE);
    let everywhere = suite::known_failures(FAIL_EVERYWHERE);
    let mut cases = case::find(&folder, only.as_deref());
    cases.retain(|case| !everywhere.contains_key(&case.name));
    let taken = |(index, case): (usize, Case)| (index % all + 1 == own).then_some(case);
    let cases: Vec<Case> = cases.into_iter().enumerate().filter_map(taken).collect();
    assert!(!cases.is_empty(), "{} has no cases", folder.display());
    if all > 1 {
        known.retain(|name, _| cases.iter().any(|case| case.name == *name));
    }

    let device = Device::builder("metal").wait_timeout(Duration::from_secs(120)).open().unwrap();
    let outcomes = suite::run_all(&cases, &Mode { device: device.clone(), passes: Passes::all() });

    let is_expected = |case: &Case| known.contains_key(&case.name);
    let (cases, outcomes): (Vec<Case>, Vec<Outcome>) = cases
        .into_iter()
        .zip(outcomes)
        .filter(|(case, outcome)| is_expected(case) || !is_refused(outcome))
        .unzip();
    suite::compare(&cases, &outcomes, &known, only.is_some());

    device.close().unwrap();
    control::expect_left(&millstream_metal::kept_objects(), Duration::from_secs(60));
    let broken = rules::take();
    assert!(broken.is_empty(), "{broken:?}");
}
