//! Models that fuzzing found: each made something panic once. Now they give answers or errors, as the fuzz targets run them.

use std::sync::atomic::{AtomicUsize, Ordering};

#[path = "../../fuzz/fuzz_targets/model.rs"]
mod model;

static PANICS: AtomicUsize = AtomicUsize::new(0);

#[test]
fn what_fuzzing_found_stays_mended() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        before(panic);
    }));
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/findings");
    let mut models = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "onnx") {
            continue;
        }
        models += 1;
        model::run(&std::fs::read(&path).unwrap());
        assert_eq!(PANICS.load(Ordering::Relaxed), 0, "{}", path.display());
    }
    assert!(models > 0);
}
