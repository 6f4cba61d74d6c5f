//! All cases on a device, and what must come of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream_core::Device;
use millstream_graph::Passes;

use crate::case::{Case, Outcome};
use crate::compare::Tolerance;
use crate::{known, report};

/// The rules of ONNX's own runner.
const TOLERANCE: Tolerance =
    Tolerance::Each { absolute: 1e-7, relative: 1e-3, relative_bf16: 1.0 / 64.0 };

/// How cases are run.
pub struct Mode {
    pub device: Device,
    pub passes: Passes,
}

/// Where the exported cases are.
pub fn folder() -> Option<PathBuf> {
    let folder = std::env::var("MILLSTREAM_NODE_TESTS").ok().map(PathBuf::from);
    if folder.is_none() {
        eprintln!(
            "skipped: MILLSTREAM_NODE_TESTS is not set; crates/onnx/tests/node_tests/export.py exports the cases and \
             prints their folder"
        );
    }
    folder
}

/// The part of a case's name that asks for some cases only.
pub fn only() -> Option<String> {
    std::env::var("MILLSTREAM_NODE_TESTS_ONLY").ok()
}

/// What a list, named from the folder of the crate that is tested on, says of what fails.
pub fn known_failures(list: &str) -> BTreeMap<String, String> {
    known::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(list)).unwrap()
}

/// Runs all cases, as many at a time as there are cores.
pub fn run_all(cases: &[Case], mode: &Mode) -> Vec<Outcome> {
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

/// Prints what passed, and fails if cases do other than the list says; not if some were asked for by name.
pub fn compare(
    cases: &[Case],
    outcomes: &[Outcome],
    known: &BTreeMap<String, String>,
    by_name: bool,
) {
    report::print(cases, outcomes, by_name);
    if !by_name {
        let surprises = known::surprises(known, cases, outcomes);
        assert!(surprises.is_empty(), "{}", surprises.join("\n"));
    }
}
