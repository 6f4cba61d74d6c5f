//! ONNX's own tests. They run where the exported cases are: `MILLSTREAM_NODE_TESTS` is their folder, which
//! `tests/node_tests/export.py` makes and prints.
//!
//! What fails is compared with `known_failures.txt`, both ways: what is on the list must fail, so the list only shrinks.
//! `MILLSTREAM_NODE_TESTS_ONLY` runs those whose name has a text in it, and prints why each failed. The kernels of GPUs run them too:
//! `crates/metal/tests/node_tests.rs`.

#[path = "../shared/case.rs"]
mod case;
#[path = "../shared/compare.rs"]
mod compare;
mod known;
mod report;
mod suite;

use millstream_core::Device;
use millstream_cpu as _;
use millstream_graph::Passes;

use suite::Mode;

fn run(mode: &Mode) {
    let Some(folder) = suite::folder() else { return };
    let only = suite::only();
    let cases = case::find(&folder, only.as_deref());
    assert!(!cases.is_empty(), "{} has no cases", folder.display());
    let outcomes = suite::run_all(&cases, mode);
    let known = suite::known_failures("tests/node_tests/known_failures.txt");
    suite::compare(&cases, &outcomes, &known, only.is_some());
}

#[test]
fn node_tests_pass_with_all_passes() {
    run(&Mode { device: Device::cpu().unwrap(), passes: Passes::all() });
}

#[test]
fn node_tests_pass_without_passes() {
    run(&Mode { device: Device::cpu().unwrap(), passes: Passes::none() });
}
