//! Every kernel, executed on this machine against the conformance suite.
//!
//! `scripts/kernels.sh host` runs all of it, which takes minutes, and sets `MILLSTREAM_KERNELS_REQUIRED`.
//! Without that a few kinds of operation are run, and if clang-22 is not there the tests say so and pass.
//! `MILLSTREAM_KERNELS_KINDS=fill,copy` chooses the kinds.

mod epilogue;
mod faults;
mod keys;
mod library;
mod memory;
mod planted;
mod rows;
mod target;
mod toolchain;

use std::sync::OnceLock;

use keys::chosen_kinds;
use library::Library;
use millstream_conformance::{proptest_target, run_kinds};
use millstream_core::OpKind;
use target::Host;
use toolchain::Toolchain;

/// What a plain `cargo test` runs.
const FEW: [OpKind; 6] = [
    OpKind::Fill,
    OpKind::Where,
    OpKind::Softmax,
    OpKind::MatMulInteger,
    OpKind::Embedding,
    OpKind::Pad,
];

fn is_required() -> bool {
    std::env::var_os("MILLSTREAM_KERNELS_REQUIRED").is_some()
}

/// The kinds of operation that are run.
fn kinds() -> Vec<OpKind> {
    if is_required() || std::env::var_os("MILLSTREAM_KERNELS_KINDS").is_some() {
        return chosen_kinds();
    }
    eprintln!("LEFT OUT: only {FEW:?} are executed on the host; scripts/kernels.sh runs all kinds");
    FEW.to_vec()
}

/// The one host of this process, with the kernels of the fixed cases compiled.
fn host() -> Option<&'static Host> {
    static HOST: OnceLock<Option<Host>> = OnceLock::new();
    HOST.get_or_init(|| {
        let toolchain = match Toolchain::find() {
            Ok(toolchain) => toolchain,
            Err(reason) => {
                assert!(!is_required(), "{reason}");
                eprintln!("LEFT OUT: no kernel was executed on the host: {reason}");
                return None;
            }
        };
        let host = Host::new(Library::new(toolchain).unwrap(), kinds());
        let start = std::time::Instant::now();
        let keys = host.prepare().unwrap_or_else(|error| panic!("{error}"));
        println!("{keys} kernels ready after {:?}", start.elapsed());
        Some(host)
    })
    .as_ref()
}

#[test]
fn the_suite_holds_on_the_host() {
    let Some(host) = host() else { return };
    let report = run_kinds(host, &kinds());
    println!("{report}");
    assert!(report.is_clean());
}

#[test]
fn arbitrary_cases_hold_on_the_host() {
    let Some(host) = host() else { return };
    proptest_target(host, 400);
}
