//! Models with onnxruntime's answers. They run where the exported cases are: `MILLSTREAM_REFERENCE` is their folder, which
//! `tests/reference/export.py` makes and prints. `MILLSTREAM_REFERENCE_ONLY` runs those whose name has a text in it.

#[path = "../shared/case.rs"]
mod case;
#[path = "../shared/compare.rs"]
mod compare;

use std::path::PathBuf;

use millstream_core::Device;
use millstream_cpu as _;
use millstream_graph::Passes;

use compare::Tolerance;

const TOLERANCE: Tolerance = Tolerance::OfLargest { absolute: 1e-5, relative: 1e-4 };

fn run(passes: &Passes) {
    let Ok(folder) = std::env::var("MILLSTREAM_REFERENCE") else {
        eprintln!(
            "skipped: MILLSTREAM_REFERENCE is not set; crates/onnx/tests/reference/export.py makes the cases and prints their folder"
        );
        return;
    };
    let only = std::env::var("MILLSTREAM_REFERENCE_ONLY").ok();
    let cases = case::find(&PathBuf::from(&folder), only.as_deref());
    assert!(!cases.is_empty(), "{folder} has no cases");
    let device = Device::cpu().unwrap();
    let mut failed = Vec::new();
    for case in &cases {
        if let Err(reason) = case.run(&device, passes, TOLERANCE) {
            failed.push(format!("{}: {reason}", case.name));
        }
    }
    assert!(failed.is_empty(), "{} of {} fail:\n{}", failed.len(), cases.len(), failed.join("\n"));
    println!("{} cases", cases.len());
}

#[test]
fn answers_are_those_of_onnxruntime() {
    run(&Passes::all());
}

#[test]
fn answers_are_those_of_onnxruntime_without_passes() {
    run(&Passes::none());
}
