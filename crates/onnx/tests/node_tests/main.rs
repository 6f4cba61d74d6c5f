//! ONNX's own tests. They run where the exported cases are: `MILLSTREAM_NODE_TESTS` is their folder, which
//! `tests/node_tests/export.py` makes and prints.
//!
//! What fails is compared with `known_failures.txt`, both ways: what is on the list must fail, so the list only shrinks.
//! `MILLSTREAM_NODE_TESTS_ONLY` runs those whose name has a text in it, and prints why each failed.

#[path = "../shared/case.rs"]
mod case;
#[path = "../shared/compare.rs"]
mod compare;
mod known;
mod report;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream_core::Device;
use millstream_cpu as _;
use millstream_graph::Passes;

use case::{Case, Outcome};
use compare::Tolerance;

/// The rules of ONNX's own runner.
const TOLERANCE: Tolerance =
    Tolerance::Each { absolute: 1e-7, relative: 1e-3, relative_bf16: 1.0 / 64.0 };

/// How cases are run.
struct Mode {
    device: Device,
    passes: Passes,
}

fn folder() -> Option<PathBuf> {
    let folder = std::env::var("MILLSTREAM_NODE_TESTS").ok().map(PathBuf::from);
    if folder.is_none() {
        eprintln!(
            "skipped: MILLSTREAM_NODE_TESTS is not set; crates/onnx/tests/node_tests/export.py exports the cases and \
             prints their folder"
        );
    }
    folder
}

/// Runs all cases, as many at a time as there are cores.
fn run_all(cases: &[Case], mode: &Mode) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let outcomes: Vec<Mutex<Option<Outcome>>> = cases.iter().map(|_| Mutex::new(None)).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(index) else { return };
                    let outcome = case.run(&mode.device, &mode.passes, TOLERANCE);
                    *outcomes[index].lock().unwrap() = Some(outcome);
                }
            });
        }
    });
    outcomes.into_iter().map(|outcome| outcome.into_inner().unwrap().unwrap()).collect()
}

fn run(mode: &Mode) {
    let Some(folder) = folder() else { return };
    let only = std::env::var("MILLSTREAM_NODE_TESTS_ONLY").ok();
    let cases = case::find(&folder, only.as_deref());
    assert!(!cases.is_empty(), "{} has no cases", folder.display());
    let outcomes = run_all(&cases, mode);
    report::print(&cases, &outcomes, only.is_some());
    let list = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/node_tests/known_failures.txt");
    let known = known::read(list.as_ref()).unwrap();
    if only.is_none() {
        let surprises = known::surprises(&known, &cases, &outcomes);
        assert!(surprises.is_empty(), "{}", surprises.join("\n"));
    }
}

#[test]
fn node_tests_pass_with_all_passes() {
    run(&Mode { device: Device::cpu().unwrap(), passes: Passes::all() });
}

#[test]
fn node_tests_pass_without_passes() {
    run(&Mode { device: Device::cpu().unwrap(), passes: Passes::none() });
}
